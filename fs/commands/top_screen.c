/* See top_screen.h. */
#include "fs/commands/top_screen.h"

#include "fs/base/standard.h"
#include "fs/base/text.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static struct termios before; /* of standard input, if `keys` */
static bool keys;	      /* standard input is read key by key */
static volatile sig_atomic_t ended;

static void screen_on_signal(int signal)
{
	(void)signal;
	ended = 1;
}

bool top_screen_begin(void)
{
	static const char show[] = "\033[?1049h\033[?25l"; /* alternate screen, no cursor */
	struct sigaction a = {.sa_handler = screen_on_signal};
	if (!isatty(STDOUT_FILENO))
		return false;
	(void)sigaction(SIGINT, &a, NULL);
	(void)sigaction(SIGTERM, &a, NULL);
	(void)sigaction(SIGHUP, &a, NULL);
	keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	if (keys) {
		struct termios now = before;
		now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
	}
	(void)standard_write_all(STDOUT_FILENO, show, sizeof show - 1);
	return true;
}

void top_screen_end(bool screen)
{
	static const char hide[] = "\033[?25h\033[?1049l";
	if (!screen)
		return;
	if (keys)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
	(void)standard_write_all(STDOUT_FILENO, hide, sizeof hide - 1);
}

void top_screen_show(const char *text, size_t length)
{
	struct winsize w = {0};
	struct text page = {0};
	size_t row = 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){.ws_row = 24, .ws_col = 80};
	text_string(&page, "\033[H");
	for (const char *at = text, *end = text + length; at < end && row + 1 < w.ws_row; row++) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		size_t n = line ? (size_t)(line - at) : (size_t)(end - at);
		text_add(&page, at, n < w.ws_col ? n : w.ws_col);
		text_string(&page, "\033[K\n");
		at += n + 1;
	}
	text_string(&page, "\033[J");
	if (!page.failed)
		(void)standard_write_all(STDOUT_FILENO, page.data, page.length);
	text_free(&page);
}

bool top_screen_wait(bool screen, uint32_t seconds)
{
	struct pollfd keyboard = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	char key = 0;
	if (!screen) {
		const struct timespec pause = {.tv_sec = seconds};
		return nanosleep(&pause, NULL) != 0;
	}
	int ready = poll(&keyboard, 1, (int)seconds * 1000);
	if (ready > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
		return true;
	return ended;
}
