/* A model's tensors by their published names. Anybody's, whether the model is loaded or not: the
 * list is made once, by who first asks for it, and stays as long as the model. */
#ifndef MOEFS_ENGINE_MODEL_MODEL_TENSORS_H
#define MOEFS_ENGINE_MODEL_MODEL_TENSORS_H

#include "engine/convert/tensors.h"

#include <pthread.h>

struct model_tensors {
	pthread_mutex_t opening;      /* held while the list is made */
	struct tensors *_Atomic list; /* NULL: nobody has asked for it */
};

#endif
