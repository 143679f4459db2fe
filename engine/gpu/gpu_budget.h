/* The memory of the GPU that all models of an engine share: who uses how much, and the limit. It
 * only counts: the backend allocates (card_take) after gpu_budget_take said yes.
 *
 * The limit in force is
 *     asked for      the user's size, but at most the memory that was free
 *     automatic      the memory that was free, less GPU_RESERVE
 * and 0 until a card was opened (gpu_budget_found), since only the card knows what is free. Other
 * programs may use the GPU as well, so allocating may still fail.
 *
 * Any thread may call these functions. No other lock is taken under the lock. */
#ifndef MOEFS_ENGINE_GPU_GPU_BUDGET_H
#define MOEFS_ENGINE_GPU_GPU_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes that the automatic limit leaves free, for what is not counted here: the driver allocates in
 * blocks of 2 MiB, and keeps the kernels' code, instantiated graphs, and the local memory of every
 * thread that the GPU can hold (1 KiB for each is 277 MB on an H200). On a desktop, windows that
 * are opened later take some 100 MB. */
#define GPU_RESERVE ((uint64_t)512 << 20)

enum gpu_use { GPU_DENSE, GPU_CONTEXTS, GPU_EXPERTS, GPU_USES };

struct gpu_budget {
	pthread_mutex_t lock;
	uint64_t asked; /* 0: automatic */
	uint64_t limit; /* in force */
	uint64_t free;	/* when a card was opened last; 0: none was opened yet */
	uint64_t used[GPU_USES];
};

/* asked: bytes; 0: automatic. */
void gpu_budget_init(struct gpu_budget *b, uint64_t asked);
void gpu_budget_free(struct gpu_budget *b);
/* A card was opened, with so many bytes free. What is counted as used now is not among them. */
void gpu_budget_found(struct gpu_budget *b, uint64_t free_now);
/* Counts the bytes. False: they would pass the limit; nothing is counted. */
bool gpu_budget_take(struct gpu_budget *b, enum gpu_use use, uint64_t bytes);
void gpu_budget_give(struct gpu_budget *b, enum gpu_use use, uint64_t bytes);
/* The user asks for another limit; 0: automatic. It may be less than what is used: then nothing
 * more can be taken, and the backend gives back gpu_budget_over() bytes between two steps. */
void gpu_budget_ask(struct gpu_budget *b, uint64_t bytes);
/* The limit in force, and what of it is not used. */
uint64_t gpu_budget_limit(struct gpu_budget *b);
uint64_t gpu_budget_room(struct gpu_budget *b);
/* Bytes by which the used memory passes the limit. */
uint64_t gpu_budget_over(struct gpu_budget *b);

#endif
