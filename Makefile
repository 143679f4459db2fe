# moefs: build, test, try, install. `make help` lists the targets.
#
# Objects go to build/ (build/asan, build/tsan … for the instrumented trees). A new .c file in a
# layer's folder is picked up by itself; a new tests/unit/test_*.c becomes a test program.

CC      ?= gcc
PREFIX  ?= /usr/local
BUILD   ?= build
VERSION := 0.1.0

LIBS     := fuse3 libzstd json-c liburing libpcre2-8 libutf8proc libxxhash
WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
CPPFLAGS += -D_GNU_SOURCE -DFUSE_USE_VERSION=314 -DPCRE2_CODE_UNIT_WIDTH=8 -DMOEFS_VERSION='"$(VERSION)"' -I.
CFLAGS   ?= -O2 -g
override CFLAGS += -std=c17 $(WARN) -ffp-contract=off -fno-math-errno -pthread -MMD -MP $(SANITIZE)
LDFLAGS  += -pthread $(SANITIZE)

ifneq ($(MAKECMDGOALS),clean)
PKG_CFLAGS := $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(LIBS) 2>/dev/null)
endif

sources = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c))
LIB_OBJS := $(call sources,cache) $(call sources,kernels) $(call sources,engine)
FS_OBJS  := $(call sources,fs)
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
UNIT_HELP := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/unit/test_*.c),$(wildcard tests/unit/*.c)))

.PHONY: all
all: $(BUILD)/moefs

$(BUILD)/moefs: $(FS_OBJS) $(BUILD)/libmoefs.a
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm

$(BUILD)/libmoefs.a: $(LIB_OBJS)
	@rm -f $@
	ar rcs $@ $^

# -O3: blocks of sums stay in registers only if loops with constant bounds are unrolled.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(patsubst %.c,$(BUILD)/%.o,$(wildcard kernels/avx2*.c)): override CFLAGS += -O3 -mavx2 -mfma -mf16c
endif
$(BUILD)/tests/unit/golden.o: override CPPFLAGS += -DMOEFS_SOURCE_ROOT='"$(CURDIR)"'

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(PKG_CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(UNIT_HELP) $(BUILD)/libmoefs.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) $(shell pkg-config --libs cmocka) -lm

.PHONY: unit
unit: $(UNIT)

.PHONY: clean
clean:
	rm -rf build

-include $(LIB_OBJS:.o=.d) $(FS_OBJS:.o=.d) $(UNIT_HELP:.o=.d) $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%.d,$(wildcard tests/unit/test_*.c))
