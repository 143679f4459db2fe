/* Ctrl-C as an event that what waits is told of, where it shall not end the command. */
#ifndef MOEFS_FS_COMMANDS_INTERRUPT_H
#define MOEFS_FS_COMMANDS_INTERRUPT_H

/* From now on SIGINT ends nothing and is noticed by interrupt_wait alone, which so misses none. */
void interrupt_catch(void);
/* Waits until there is something to read, or its end, at most so long (-1: forever). 0; -EINTR:
 * Ctrl-C came before that; -EAGAIN: the time is over. */
int interrupt_wait(int fd, int milliseconds);

#endif
