/* The terminal of moefs top: a page that is shown again and again, as far as it has room. */
#ifndef MOEFS_FS_COMMANDS_TOP_SCREEN_H
#define MOEFS_FS_COMMANDS_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether standard output is a terminal: then it is the page's until top_screen_end. */
bool top_screen_begin(void);
void top_screen_end(bool screen);
/* Shows a page, cut to the terminal's lines and columns. */
void top_screen_show(const char *text, size_t length);
/* Waits; true: somebody has pressed q or Ctrl-C, or asked to end. */
bool top_screen_wait(bool screen, uint32_t seconds);

#endif
