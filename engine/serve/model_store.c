#include "engine/serve/model_store.h"

bool model_hold_store(const struct model_store *s)
{
	pthread_rwlock_t *lock = (pthread_rwlock_t *)&s->lock; /* nothing is changed */
	pthread_rwlock_rdlock(lock);
	if (atomic_load(&s->has_store))
		return true;
	pthread_rwlock_unlock(lock);
	return false;
}

void model_release_store(const struct model_store *s)
{
	pthread_rwlock_unlock((pthread_rwlock_t *)&s->lock);
}
