/* A model's tensors by their published names. Any thread may use them, whether or not the model is
 * loaded. The first caller makes the list; it stays as long as the model. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_TENSORS_H
#define MOEFS_ENGINE_MODEL_MODEL_TENSORS_H

#include "engine/convert/tensors.h"

#include <pthread.h>

struct model_tensors {
	pthread_mutex_t opening;      /* held while the list is made */
	struct tensors *_Atomic list; /* NULL: not made yet */
};

#endif
