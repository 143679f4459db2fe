# moefs: build, test, try, install. `make help` lists the targets.
#
# Objects go to build/ (build/asan, build/tsan for the instrumented trees). A new .c file in a layer's
# folder is picked up by itself; a new tests/unit/test_*.c becomes a test program, a new
# tests/mount/*.sh a test of the mount, a new tests/fuzz/fuzz_*.c a fuzzer.

CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
PREFIX  ?= /usr/local
BUILD   ?= build
VERSION := 0.1.0
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
# V=1 shows the commands
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-4s %s\n' $(1) $(2))

comma    := ,
LIBS     := fuse3 libzstd liburing libpcre2-8 libutf8proc libxxhash libedit
WARN     := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
override CPPFLAGS += -D_GNU_SOURCE -DFUSE_USE_VERSION=314 -DPCRE2_CODE_UNIT_WIDTH=8 \
                     -DMOEFS_VERSION='"$(VERSION)"' -I.
CFLAGS   ?= -O2 -g
override CFLAGS  += -std=c17 $(WARN) -ffp-contract=off -fno-math-errno -pthread -MMD -MP $(SANITIZE)
override LDFLAGS += -pthread $(SANITIZE)
PKG_CFLAGS := $(shell pkg-config --cflags $(LIBS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(LIBS) 2>/dev/null)
# What only tests and benchmarks use: they write JSON, and look at the project's reader of it from outside.
# What the gateway alone is linked with.
HTTP_LIBS  := libmicrohttpd json-c
TEST_LIBS  := cmocka json-c

objects   = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_OBJS  := $(call objects,$(wildcard cache/*.c kernels/*.c kernels/cuda/*.c engine/*/*.c))
HTTP_OBJS := $(call objects,$(wildcard fs/gateway/*.c fs/gateway/*/*.c))
# -o http listens before anything is mounted.
FS_OBJS   := $(filter-out $(HTTP_OBJS),$(call objects,$(wildcard fs/*.c fs/*/*.c))) $(call objects,fs/gateway/listen.c)
UNIT_SRC  := $(wildcard tests/unit/test_*.c)
UNIT_OBJS := $(call objects,$(UNIT_SRC))
UNIT      := $(BUILD)/unit
HELP_OBJS := $(call objects,$(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
BENCH_OBJS := $(call objects,$(wildcard tests/bench/*.c))
FUZZERS   := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

# The demonstration model's weights are in the repository in two thirds of their size; make restores them.
DEMO_MODEL   := examples/models/fable-moe-15m
DEMO_WEIGHTS := $(DEMO_MODEL)/model.safetensors

.SECONDARY:
.PHONY: all
all: $(BUILD)/moefs $(BUILD)/moefs-http pages $(DEMO_WEIGHTS) ## build build/moefs and build/moefs-http, their manual and completion (the default)

$(BUILD)/moefs: $(FS_OBJS) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm

# A client of the tree's files: of the rest of the project it has texts, UTF-8 and errors alone.
HTTP_BASE := fs/base/text.c fs/base/standard.c fs/base/systemd.c cache/err.c cache/utf8.c
$(BUILD)/moefs-http: $(HTTP_OBJS) $(BUILD)/fs/gateway/page/data.o $(call objects,$(HTTP_BASE))
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs $(HTTP_LIBS)) -lm

# The page's libraries: Debian's, or with PAGE_LIBS= those that npm installed in a folder.
PAGE_LIBS ?=
$(BUILD)/page-libs/licences.txt: fs/gateway/page/libs.sh Makefile
	$(call say,PAGE,$@)
	$(Q)fs/gateway/page/libs.sh $(@D) $(PAGE_LIBS)

# The page's files as arrays. Not by ld -r -b binary: its objects are named after the path they were made from, are of
# one linker's making and have no word on what of them may run; od is everywhere, and the compiler does the rest.
PAGE_FILES := $(wildcard fs/gateway/page/*.html fs/gateway/page/*.css fs/gateway/page/*.js \
	fs/gateway/page/*.svg)
$(BUILD)/fs/gateway/page/data.c: $(PAGE_FILES) $(BUILD)/page-libs/licences.txt Makefile
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ echo '#include "fs/gateway/gateway.h"'; \
		files='$(PAGE_FILES)'; files="$$files $$(echo $(BUILD)/page-libs/*)"; \
		i=0; for f in $$files; do i=$$((i + 1)); echo "static const unsigned char f$$i[] = {"; \
			od -An -v -tu1 $$f | sed 's/ *\([0-9][0-9]*\)/\1,/g'; echo '};'; done; \
		echo 'const struct web_file web_files[] = {'; \
		i=0; for f in $$files; do i=$$((i + 1)); echo "{\"$${f##*/}\", f$$i, sizeof f$$i},"; done; \
		echo '{0, 0, 0}};'; } >$@.new && mv $@.new $@
$(BUILD)/fs/gateway/page/data.o: $(BUILD)/fs/gateway/page/data.c
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The GPU kernels, by each installed compiler; one file for all trees, since it does not depend on their options.
CUDA_IMAGES := build/cuda/images.c
$(CUDA_IMAGES): kernels/cuda/images.sh $(wildcard kernels/cuda/*.cu kernels/cuda/*.h) kernels/exponential.h
	$(call say,CUDA,$@)
	$(Q)kernels/cuda/images.sh $@
$(BUILD)/kernels/cuda/images.o: $(CUDA_IMAGES)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/libmoefs.a: $(LIB_OBJS) $(BUILD)/kernels/cuda/images.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/pack: $(call objects,examples/models/pack.c examples/models/packed.c) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm

$(DEMO_WEIGHTS): $(DEMO_WEIGHTS).packed | $(BUILD)/pack
	$(call say,MAKE,$@)
	$(Q)$(BUILD)/pack -d $< $@

# What is told of the program beside it, made from its own tables (fs/install/pages).
PAGES := $(patsubst fs/install/%.in,$(BUILD)/install/%,$(wildcard fs/install/*.in))
.PHONY: pages
pages: $(PAGES)

PAGES_OBJS := $(call objects,$(wildcard fs/install/pages/*.c) fs/gateway/gateway_options.c) $(filter-out $(BUILD)/fs/main.o,$(FS_OBJS))
$(BUILD)/pages: $(PAGES_OBJS) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm

$(BUILD)/install/%: fs/install/%.in $(BUILD)/pages
	$(call say,PAGE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BUILD)/pages $< >$@.new && mv $@.new $@

# -O3: blocks of sums stay in registers only if loops with constant bounds are unrolled. Not under the
# sanitizers, which would take minutes for it. -g1: where each variable is in code unrolled so far took a third of
# the compiler's time. No input of a fuzzer's comes to these, and instrumented they took longer than all others.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(call objects,$(wildcard kernels/avx*.c)): override CFLAGS += $(if $(SANITIZE),,-O3) -g1 -mavx2 -mfma -mf16c \
	$(if $(findstring fuzzer,$(SANITIZE)),-fno-sanitize=all)
$(call objects,$(wildcard kernels/avx512*.c)): override CFLAGS += \
	-mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
$(call objects,$(wildcard kernels/avx512vnni*.c kernels/avx512amx*.c)): override CFLAGS += -mavx512vnni -mavx512vbmi
$(call objects,$(wildcard kernels/avx512amx*.c)): override CFLAGS += -mamx-tile -mamx-int8
# Codes of blocks, made all before they are used, do not fit the registers; gcc moves them closer only when told to.
$(call objects,$(wildcard kernels/avx512*_block.c) kernels/avx2_multiply.c): override CFLAGS += \
	$(if $(SANITIZE)$(findstring clang,$(shell $(CC) --version)),,-fschedule-insns -fsched-pressure)
endif
ifneq ($(findstring aarch64,$(shell $(CC) -dumpmachine)),)
$(call objects,$(wildcard kernels/neon*.c)): override CFLAGS += $(if $(SANITIZE),,-O3)
$(call objects,$(wildcard kernels/neondot*.c)): override CFLAGS += -march=armv8.2-a+dotprod
endif
# Products, attention and rows' codes are not checked load by load: kernels/watch.h says what is done instead.
$(call objects,$(wildcard kernels/*_attention.c kernels/*_multiply.c kernels/*_tq.c kernels/*_block.c kernels/*_rotate.c kernels/*_tc.c kernels/*_tiles.c) \
	kernels/tq.c kernels/tc.c kernels/tc_errors.c kernels/format_floats.c engine/convert/rounding*.c): \
	override CFLAGS += $(if $(findstring thread,$(SANITIZE)),-fno-sanitize=thread)
# -O3: the passes over a whole vocabulary, over the rows of a slab, and over a row's numbers become vectors.
$(BUILD)/engine/compute/sampler.o $(addprefix $(BUILD)/kernels/,format_arrange.o format_floats.o f16_bf16.o scalar.o): \
	override CFLAGS += $(if $(SANITIZE),,-O3)
$(BUILD)/tests/unit/golden.o: override CPPFLAGS += -DMOEFS_SOURCE_ROOT='"$(CURDIR)"'

# Looked at before anything is compiled, so that what is too old is said in words; not where nothing is linked with
# them (tests/cross.sh).
.PHONY: libraries
libraries:
	$(Q)$(if $(filter command,$(firstword $(origin PKG_CFLAGS))),:,examples/libraries.sh $(LIBS) $(HTTP_LIBS))

$(BUILD)/%.o: %.c | libraries
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(PKG_CFLAGS) -c -o $@ $<

# Every group of unit tests in one program: tests/unit/main.c. The main of test_X.c is group_X. This also declares
# it, as -Wmissing-prototypes wants; "void" is the macro's parameter.
$(UNIT_OBJS): override CPPFLAGS += -D'main(void)=group_$(*:tests/unit/test_%=%)(void); int group_$(*:tests/unit/test_%=%)(void)'
$(UNIT_OBJS): tests/unit/main.c # objects of before it are made again

# The list of groups is new only when it changes.
UNIT_GROUPS := $(UNIT_SRC:tests/unit/test_%.c=%)
.PHONY: groups
$(BUILD)/tests/unit/groups.h: groups
	$(Q)mkdir -p $(@D)
	$(Q)printf 'GROUP(%s)\n' $(UNIT_GROUPS) | cmp -s - $@ || \
		printf 'GROUP(%s)\n' $(UNIT_GROUPS) >$@
$(BUILD)/tests/unit/main.o: override CPPFLAGS += -I$(BUILD)/tests/unit
$(BUILD)/tests/unit/main.o: $(BUILD)/tests/unit/groups.h

# What tests put their own around: the run loop's steps (session_help.c), the disk (fault_io.c), memory (test_pager_slots.c),
# the order of tests (main.c).
UNIT_WRAPPED := run_begin_place loss_idle_begin turn_prepare turn_take $(addprefix io_,pread pwrite sync sync_folder reserve free_space rename remove ring_submit ring_next) \
	mmap malloc calloc realloc reallocarray _cmocka_run_group_tests
# What of the benchmarks, of the gateway (what knows nothing of HTTP) and of the tree has tests of its own.
UNIT_TESTED := $(call objects,examples/models/packed.c tests/bench/trace.c tests/bench/trace_lines.c \
	$(filter-out %_routes.c,$(wildcard fs/gateway/anthropic/*.c fs/gateway/responses/*.c)) fs/gateway/problem.c \
	$(wildcard fs/gateway/body/*.c) \
	fs/mount/call.c fs/models/kept_file.c fs/base/text.c fs/base/human.c fs/base/post.c fs/base/workers.c fs/files/tensor_names.c)
# Cases of the GPU kernels and their runners, for two unit groups and build/card.
CUDA_TEST_OBJS := $(call objects,$(filter-out tests/cuda/card.c tests/cuda/fake_driver.c,$(wildcard tests/cuda/*.c)))
$(UNIT): $(UNIT_OBJS) $(HELP_OBJS) $(CUDA_TEST_OBJS) $(UNIT_TESTED) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(UNIT_WRAPPED)) -o $@ $^ $(PKG_LIBS) $(shell pkg-config --libs $(TEST_LIBS)) -lm

# The kernels alone against the scalar ones, with no library but C's: tests/cross.sh builds it for other
# processors.
CROSS_OBJS := $(call objects,$(wildcard kernels/*.c tests/cross/*.c))
$(BUILD)/cross/compare: $(CROSS_OBJS)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm

# Compares and measures the GPU kernels on a machine with a GPU and nothing else installed: it needs only the C library.
CARD_OBJS := $(call objects,$(filter-out tests/cuda/threads.c tests/cuda/crew.c tests/cuda/fake_driver.c,$(wildcard tests/cuda/*.c)) $(wildcard kernels/*.c kernels/cuda/*.c engine/gpu/*.c) \
	cache/err.c cache/utf8.c) $(BUILD)/kernels/cuda/images.o
$(BUILD)/card: $(CARD_OBJS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -ldl -lm

# A driver for machines without a GPU, compiled from sources in one step, as a shared library.
FAKE_DRIVER := tests/cuda/fake_driver.c tests/cuda/threads.c tests/cuda/crew.c kernels/cuda/cuda_tables.c kernels/tc.c kernels/tq.c kernels/format.c \
	kernels/f16_bf16.c kernels/block.c
$(BUILD)/fake-driver/libcuda.so.1: $(FAKE_DRIVER) $(wildcard kernels/cuda/* tests/cuda/*.h) engine/gpu/gpu_driver.h
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -MMD -MP,$(CFLAGS)) -fPIC -shared -Wl,-soname,libcuda.so.1 -o $@ $(FAKE_DRIVER) -lm

# ---- testing ----

# The file system that fails as it is told, under which tests/mount/faults*.sh put the store.
$(BUILD)/faultfs: $(BUILD)/tests/mount/faultfs.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(shell pkg-config --libs fuse3)

# The program with turns that stand when a test says so: begin_long of tests/mount/lib.sh.
HELD_WRAPPED := run_begin_place grammar_check
$(BUILD)/moefs-held: $(BUILD)/tests/mount/held.o $(FS_OBJS) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(HELD_WRAPPED)) -o $@ $^ $(PKG_LIBS) -lm

# The maker of models that say what a script tells: tests/scripted.
SCRIPTED_OBJS := $(call objects,$(wildcard tests/scripted/*.c))
$(BUILD)/scripted: $(SCRIPTED_OBJS) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lm

.PHONY: unit check asan tsan fuzz fuzzers
# The fuzzers' sources, compiled by any compiler: a function that one of them calls and that is gone is seen here.
FUZZ_OBJS := $(call objects,$(wildcard tests/fuzz/*.c))
unit: $(UNIT) $(BUILD)/faultfs $(BUILD)/moefs-held $(BUILD)/scripted $(FUZZ_OBJS) $(BUILD)/pack $(BUILD)/card $(BUILD)/fake-driver/libcuda.so.1 $(DEMO_WEIGHTS) ## build the unit tests, and what the tests of the mount need
	@:

# -g1: lines, which is what a report has; everything else of -g made these trees' compilation a third longer.
SANITIZERS := CFLAGS='-O1 -g1 -fno-omit-frame-pointer'

asan: ## build everything with AddressSanitizer and UBSan, in build/asan
	$(Q)$(MAKE) BUILD=build/asan SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=all' \
		$(SANITIZERS) all unit

tsan: ## build everything with ThreadSanitizer, in build/tsan
	$(Q)$(MAKE) BUILD=build/tsan SANITIZE=-fsanitize=thread $(SANITIZERS) all unit

check: ## install what the tests need, build with warnings as errors, pass every test
	$(Q)examples/packages.sh test
	$(Q)$(MAKE) -j$(JOBS) all unit $(BUILD)/moefs-bench
	$(Q)JOBS=$(JOBS) tests/run.sh

.PHONY: check-fresh check-sanitizers check-full
check-fresh: ## make demo and make check in a Debian where nothing is installed yet, as root and as an ordinary user
	$(Q)examples/packages.sh fresh
	$(Q)FRESH=$(FRESH) tests/package/fresh.sh

check-sanitizers: ## the tests under AddressSanitizer, UBSan and ThreadSanitizer; all of the benchmark's subcommands; the fuzzers are built
	$(Q)examples/packages.sh full
	$(Q)$(MAKE) -j$(JOBS) all $(BUILD)/moefs-bench asan tsan build-unoptimised
	$(Q)if examples/packages.sh can-fuzz; then $(MAKE) -j$(JOBS) fuzzers; \
		else echo 'clang with libFuzzer is not to be had here: the fuzzers are not built'; fi
	$(Q)CHECK=full JOBS=$(JOBS) tests/run.sh

# What warnings say depends on the level, and gcc 12 fell over one of them at -O0.
.PHONY: build-unoptimised
build-unoptimised: ## build everything without optimisation, in build/o0
	$(Q)$(MAKE) BUILD=build/o0 CFLAGS=-O0 all unit build/o0/moefs-bench

check-full: check-sanitizers ## what check leaves out: the sanitizers, another processor's kernels, each fuzzer for 20 s, the package, clients from their registries
	$(Q)tests/cross.sh
	$(Q)$(MAKE) FUZZ_SECONDS=20 fuzz
	$(Q)$(MAKE) check-deb
	$(Q)$(MAKE) check-clients

.PHONY: check-clients
check-clients: all unit ## programs from their registries against moefs-http, and its page in a browser
	$(Q)failed=0; for test in tests/clients/*.sh; do echo "# $$test"; \
		MOEFS=$$PWD/$(BUILD)/moefs $$test || failed=1; done; exit $$failed

.PHONY: check-families
check-families: all ## each family's fixture, converted by llama.cpp's own converter: moefs twice, and llama.cpp, against golden numbers
	$(Q)MOEFS=$$PWD/$(BUILD)/moefs tests/families/run.sh

.PHONY: check-real
check-real: all $(BUILD)/moefs-bench ## a published model from Python's registry, beside llama.cpp: tokens, exact arithmetic, what recipes lose, speeds
	$(Q)MOEFS=$$PWD/$(BUILD)/moefs MOEFS_BENCH=$$PWD/$(BUILD)/moefs-bench tests/real/run.sh
	$(Q)MOEFS=$$PWD/$(BUILD)/moefs tests/real/gemma.sh

# The library once more, built for libFuzzer in a tree of its own, where only make knows what is new. Not build/asan's
# objects: libFuzzer sees only code that is compiled for it, by clang, and build/asan has what gcc's sanitizers find.
.PHONY: $(BUILD)/fuzz/libmoefs.a
$(BUILD)/fuzz/libmoefs.a:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=clang CFLAGS='-O1 -g' \
		SANITIZE='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all' $@

$(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/fuzz/libmoefs.a
	$(call say,FUZZ,$@)
	$(Q)clang $(CPPFLAGS) -std=c17 $(WARN) -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all $(PKG_CFLAGS) -o $@ $^ $(PKG_LIBS) -lm -pthread

# The gateway's has nothing of the library.
HTTP_SRC := $(filter-out fs/gateway/gateway.c,$(wildcard fs/gateway/*.c fs/gateway/*/*.c)) $(BUILD)/fs/gateway/page/data.c \
	$(HTTP_BASE)
$(BUILD)/fuzz/fuzz_request: tests/fuzz/fuzz_request.c $(HTTP_SRC)
	$(call say,FUZZ,$@)
	$(Q)mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) -std=c17 $(WARN) -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $^ $(shell pkg-config --libs $(HTTP_LIBS)) -lm -pthread

fuzzers: $(FUZZERS) ## build the fuzzers, with clang

FUZZ_SECONDS ?= 60
fuzz: $(FUZZERS) ## run each fuzzer for FUZZ_SECONDS (60)
	$(Q)JOBS=$(JOBS) tests/fuzz/run.sh $(FUZZ_SECONDS) $^

SOAK_SECONDS ?= 600
.PHONY: soak
soak: all unit ## a hundred kills, and a hundred while refining; then many processes at random for SOAK_SECONDS (600), 10,000 requests to moefs-http and twenty unmounts, plain and under the sanitizers
	$(Q)$(MAKE) asan tsan
	$(Q)tests/soak/kills.sh
	$(Q)tests/soak/refine.sh
	$(Q)for tree in $(BUILD) build/asan build/tsan; do echo "# $$tree"; \
		MOEFS=$$PWD/$$tree/moefs SECONDS_OF=$(SOAK_SECONDS) tests/soak/soak.sh || exit; \
		MOEFS=$$PWD/$$tree/moefs tests/soak/gateway.sh || exit; \
		MOEFS=$$PWD/$$tree/moefs tests/soak/unmounts.sh || exit; done

# ---- measuring ----

$(BUILD)/tests/bench/make.o: override CPPFLAGS += -DMOEFS_SOURCE_ROOT='"$(CURDIR)"'

# What tests/bench/spent.c and timeline.c put their clocks around.
BENCH_WRAPPED := delta_run product_run attention_run look_back_run latent_run dense_run experts_run routing_choose routing_predict \
	activation_norm activation_prepare sampler_draw pager_begin pager_next pager_put pager_end threads_run pthread_mutex_lock syscall
# The tree beside the engine, for `files`, but for its main.
$(BUILD)/moefs-bench: $(BENCH_OBJS) $(filter-out %/main.o,$(FS_OBJS)) $(BUILD)/libmoefs.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(BENCH_WRAPPED)) -o $@ $^ $(PKG_LIBS) $(shell pkg-config --libs json-c) -lm

.PHONY: bench
bench: $(BUILD)/moefs-bench all ## measure the machine, the fastest kernels and the demonstration model
	$(Q)$< machine --rounds 3 --dir $(BUILD) --file 256M --depths 1,4
	$(Q)$< kernels --rounds 3 --kernels fastest --formats tq3,tq4,bf16 --tokens 1,32
	$(Q)$< run examples/models/fable-moe-15m --store $(BUILD)/bench-store \
		--prompt 128 --tokens 256 --context 128,3072
	$(Q)tests/bench/tree.sh

# ---- trying and installing ----

.PHONY: demo install uninstall clean help
demo: ## install what is missing, build, mount the demonstration model and talk to it
	$(Q)examples/packages.sh build
	$(Q)$(MAKE) -j$(JOBS) all
	$(Q)$(BUILD)/moefs demo

# What is installed: how, the file, and its place under PREFIX. `uninstall` removes the same. mount(8) looks for
# helpers in /sbin alone; systemd for the units of a user's in lib of the system and in share of his own folder.
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
SYSTEM         := $(filter /usr /usr/local,$(PREFIX))
ZSH_FUNCTIONS  ?= share/zsh/site-functions
HELPERS        ?= /sbin
USER_UNITS     ?= $(if $(SYSTEM),lib,share)/systemd/user
# What `moefs demo` mounts, and what README tries first: 30 MB.
DEMO_FILES := $(filter-out %.packed $(DEMO_WEIGHTS),$(wildcard $(DEMO_MODEL)/*)) $(DEMO_WEIGHTS)
INSTALLED = \
	755:$(BUILD)/moefs:bin/moefs \
	755:$(BUILD)/moefs-http:bin/moefs-http \
	$(foreach p,$(filter %.1,$(PAGES)),644:$(p):share/man/man1/$(notdir $(p))) \
	644:$(BUILD)/install/moefs.5:share/man/man5/moefs.5 \
	$(foreach c,moefs moefs-http,644:$(BUILD)/install/$(c).bash:share/bash-completion/completions/$(c) \
		644:$(BUILD)/install/$(c).zsh:$(ZSH_FUNCTIONS)/_$(c) \
		644:$(BUILD)/install/$(c).fish:share/fish/vendor_completions.d/$(c).fish) \
	755:examples/demo.sh:share/moefs/demo.sh \
	$(foreach f,$(DEMO_FILES),644:$(f):share/moefs/$(f:examples/%=%)) \
	$(foreach u,moefs@.service moefs-http@.service moefs-http@.socket,unit:fs/install/systemd/$(u):$(USER_UNITS)/$(u)) \
	$(if $(SYSTEM),644:fs/install/mount.moefs.8:share/man/man8/mount.moefs.8) \
	$(if $(SYSTEM),link:bin/moefs:$(HELPERS)/mount.moefs)
part     = $(word $(1),$(subst :, ,$(2)))
placed   = '$(DESTDIR)$(if $(filter /%,$(call part,3,$(1))),,$(PREFIX)/)$(call part,3,$(1))'
put_755  = install -Dm755 $(1) $(2)
put_644  = install -Dm644 $(1) $(2)
put_link = install -d "$$(dirname $(2))" && ln -sf '$(PREFIX)/$(1)' $(2)
put_unit = install -Dm644 $(1) $(2) && sed -i 's|^\(Exec[A-Za-z]*=-*\)moefs|\1$(PREFIX)/bin/moefs|' $(2)
define put
	$(call put_$(call part,1,$(1)),$(call part,2,$(1)),$(call placed,$(1)))

endef

install: all ## install the program, its manual, completion and systemd unit under PREFIX (/usr/local)
	$(foreach i,$(INSTALLED),$(call put,$(i)))

# Where root has mounted the demonstration model, its store lies beside it.
uninstall: ## remove what install put there
	rm -f $(foreach i,$(INSTALLED),$(call placed,$(i)))
	rm -rf '$(DESTDIR)$(PREFIX)/share/moefs/models/fable-moe-15m.moefs'
	rmdir '$(DESTDIR)$(PREFIX)/share/moefs/models/fable-moe-15m' '$(DESTDIR)$(PREFIX)/share/moefs/models' \
		'$(DESTDIR)$(PREFIX)/share/moefs' 2>/dev/null || :

.PHONY: deb check-deb check-boot
deb: all ## make a package for Debian and Ubuntu, build/moefs_VERSION_ARCHITECTURE.deb
	$(Q)fs/install/debian/package.sh $(BUILD) $(VERSION) $(BUILD)

check-deb: deb ## look at that package with lintian, install and purge it in a small Debian
	$(Q)tests/package/check.sh $(BUILD)/moefs_$(VERSION)_*.deb

check-boot: deb ## boot a small Debian with that package: the system's automount, a user's unit
	$(Q)tests/systemd/boot.sh

clean: ## remove build/ and the restored weights of the demonstration model
	rm -rf build $(DEMO_WEIGHTS)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 15

-include $(patsubst %.o,%.d,$(LIB_OBJS) $(BUILD)/kernels/cuda/images.o $(FS_OBJS) $(HTTP_OBJS) $(BUILD)/fs/gateway/page/data.o $(PAGES_OBJS) $(HELP_OBJS) $(UNIT_OBJS) $(CUDA_TEST_OBJS) $(BUILD)/tests/cuda/card.o $(FUZZ_OBJS) $(BENCH_OBJS) $(CROSS_OBJS) $(SCRIPTED_OBJS) $(BUILD)/examples/models/pack.o $(BUILD)/examples/models/packed.o $(BUILD)/tests/mount/faultfs.o $(BUILD)/tests/mount/held.o)
