/* The screen of moefs top: a page that is shown repeatedly, cut to the terminal's size. */
#ifndef MOEFS_FS_COMMANDS_TOP_SCREEN_H
#define MOEFS_FS_COMMANDS_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether standard output is a terminal. If so, the page owns it until top_screen_end. */
bool top_screen_begin(void);
void top_screen_end(bool screen);
/* Shows a page, cut to the terminal's lines and columns. */
void top_screen_show(const char *text, size_t length);
/* Waits some seconds. True: the user pressed q or Ctrl-C, or a signal asked to end. */
bool top_screen_wait(bool screen, uint32_t seconds);

#endif
