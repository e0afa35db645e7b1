# make demo | test | test-all | lint | bench | docs: each sets up what it needs in .venv.
SHELL := /bin/bash
PYTHON ?= python3
# On machines without GPUs a CPU build saves gigabytes, e.g.
#   make test TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0
BIN := .venv/bin
NATIVE := $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
NATIVE_TESTS := $(wildcard $(foreach folder,native interleavings fuzz,tests/$(folder)/*.cpp tests/$(folder)/*.h))
# Fakes of a GPU and of NCCL, which tests compile.
FAKES := $(wildcard tests/fakes/*.cpp tests/fakes/*.h tests/gpu/*.cpp)
BENCHMARKED := benchmarks/triad.cpp $(wildcard benchmarks/clairvoyant_rivals/*.cpp benchmarks/clairvoyant_rivals/*.h)
TYPED := build/typed
export PYTHONWARNINGS ?= default

.PHONY: demo test test-python test-programs test-all mutants interleavings fuzz lint bench docs gpu-check sanitize wheel wheel-check format clean

# Warnings of build tools are not ours to mend; what a compiler says of ours is an error and shows.
QUIETLY := PYTHONWARNINGS=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
PIP_INSTALL := $(QUIETLY) $(BIN)/pip install --quiet --quiet

# torch first and alone: whatever needs it later takes this one.
.venv/torch:
	@echo "Set-up, 1 of 2: $(firstword $(TORCH)) into .venv (1 to 10 minutes: as fast as the network)"
	@$(QUIETLY) $(PYTHON) -m venv .venv
	@$(PIP_INSTALL) --upgrade pip
	@$(PIP_INSTALL) $(TORCH)
	@touch $@

# Where nvcc is, this compiles the GPU kernels too.
.venv/ready: .venv/torch pyproject.toml setup.py $(NATIVE)
	@echo "Set-up, 2 of 2: compiles patallreduce and installs its tools (2 to 5 minutes on 2 cores)"
	@PATALLREDUCE_WERROR=1 $(PIP_INSTALL) --editable '.[dev,report,viz,examples,lab]'
	@touch $@

demo: export PYTHONWARNINGS =
demo: .venv/ready
	@$(BIN)/python examples/demo.py

# First what computes or waits, in a process more than there are cores, as much of it waits, while the
# programs without Python are compiled and run; then what measures times, alone.
JOBS ?= $(shell nproc)
TEST_PROGRAMS := build/strict/core_tests $(addprefix build/simulated/,interleavings replay_engine replay_leader)
OF_PROGRAMS := tests/native tests/interleavings tests/fuzz
test: .venv/ready
	$(MAKE) --no-print-directory -j 2 test-python test-programs
	$(BIN)/python -m pytest -q -n 1 -m 'alone and not slow' $$(grep -rl --include='test_*.py' mark.alone tests)
test-python: .venv/ready
	$(BIN)/python -m pytest -q -n $$(($(JOBS) + 1)) --dist worksteal -m 'not slow and not alone' $(OF_PROGRAMS:%=--ignore=%)
test-programs: .venv/ready
	MAKEFLAGS= $(MAKE) --no-print-directory -j $(JOBS) $(TEST_PROGRAMS) INCLUDE=$(LIBUCX)include
	$(BIN)/python -m pytest -q -m 'not slow' $(OF_PROGRAMS)

# Frameworks, as the examples use them, and what an example for Kubernetes has to follow.
.venv/integrations: .venv/ready
	@$(PIP_INSTALL) --editable '.[integrations,schemas]'
	@touch $@

test-all: test sanitize .venv/integrations .venv/docs
	$(BIN)/python -m pytest -q -m slow

# Is every wrong version of selection, monitor and prediction, and every guard left out, noticed by a
# test? About an hour.
mutants: .venv/ready
	$(BIN)/python -m tests.mutants

# As benchmarks/results was made; RIVALS="gloo openmpi" where openmpi-bin and mpi4py are installed.
RIVALS ?= gloo
bench: .venv/ready
	$(BIN)/python -m benchmarks.allreduce --network shm --ranks 2 4 --repeats 15 --out out/bench/shm \
	  --bytes 1KiB 4KiB 16KiB 64KiB 256KiB 1MiB 4MiB 16MiB 64MiB --algorithms ring $(RIVALS)
	$(BIN)/python -m benchmarks.allreduce --network 200mbit --ranks 8 --bytes 4MiB --repeats 7 \
	  --algorithms ring slt prr $(RIVALS) --late none 1=0.3 1=1.0 --out out/bench/200mbit
	$(BIN)/python -m benchmarks.reduction --dtypes float32 float16 bfloat16 --ops sum \
	  --forms separate in_place --sizes-bytes 1048576 67108864 268435456
	$(BIN)/python -m benchmarks.training --late 0.1 0.3 0.5 1 --iterations 25 --out out/bench/training
	$(BIN)/python -m benchmarks.training --late 0.5 --patterns moving random --iterations 40 --blocks 1 \
	  --out out/bench/training_moving
	$(BIN)/python -m benchmarks.training --late 0.3 --hooks ring reversed auto --iterations 25 --settled 8 \
	  --out out/bench/training_reversed
	$(BIN)/python -m benchmarks.training --ranks 2 --network 1gbit --bytes 1MiB --computation-s 0.07 \
	  --late 0 --hooks ring auto --iterations 60 --blocks 4 --out out/bench/training_balanced
	$(BIN)/python -m benchmarks.arrivals --delays 0 0.05 0.1 0.3 0.5 1 --iterations 9 8 8 6 5 4 \
	  --algorithms ring slt prr auto $(RIVALS) --out out/bench/arrivals
	$(BIN)/python -m benchmarks.prediction --results out/bench/prediction.jsonl
	$(BIN)/python -m benchmarks.wrong_order --results out/bench/wrong_order.jsonl
	$(BIN)/python -m benchmarks.reproducible --network 200mbit --ranks 8 --out out/bench/reproducible
	$(BIN)/python -m benchmarks.reproducible --network shm --ranks 2 --bytes 1MiB 4MiB 16MiB \
	  --out out/bench/reproducible_shm
	$(BIN)/python -m benchmarks.training --ranks 4 --late 0 --hooks ring reproducible leaves4 leaves8 leaves12 \
	  --iterations 30 --out out/bench/training_leaves
	$(BIN)/python -m benchmarks.tree_sum --results out/bench/tree_sum.jsonl
	$(BIN)/python -m benchmarks.published --output out/bench/published.jsonl
	$(BIN)/python -m benchmarks.simulated --out out/bench/simulated
	$(BIN)/python -m benchmarks.simulation
	$(BIN)/python -m benchmarks.clairvoyant
	$(BIN)/python -m benchmarks.clairvoyant_allreduce
	$(BIN)/python -m benchmarks.segments --output out/bench/segments.jsonl
	$(BIN)/python examples/demo.py --out out/bench/demo_runs
	$(BIN)/python -m benchmarks.demo --runs out/bench/demo_runs --output out/bench/demo.jsonl
	$(BIN)/python -m benchmarks.leader
	$(BIN)/python -m benchmarks.selection
	$(BIN)/python -m benchmarks.jobs --cells 200 --out out/bench/jobs
	$(BIN)/python -m benchmarks.jobs.measured --out out/bench/jobs_measured
	$(BIN)/python -m benchmarks.allreduce --network 200mbit/4 --ranks 16 8 --bytes 4MiB --repeats 7 \
	  --algorithms ring slt prr $(RIVALS) --late none 5=0.5 4=0.5,5=0.5,6=0.5,7=0.5 --out out/bench/nodes
	$(BIN)/python -m benchmarks.training --network 200mbit/4 --ranks 8 --bytes 4MiB --late 0 0.3 \
	  --hooks gloo ring auto --iterations 25 --settled 8 --blocks 2 --out out/bench/training_nodes
	$(BIN)/python -m benchmarks.nodes --out out/bench/nodes_simulated

# On a machine with a GPU: builds, tests and times all that needs one, in less than ten minutes.
# There torch may be in another Python than .venv's: make gpu-check BIN=/usr/bin OUT=folder.
gpu-check:
	$(BIN)/python3 -m benchmarks.gpu_check --out $(or $(OUT),out/gpu)

# The site, in build/site. Its examples run while it is built; a warning is an error.
SPHINX = $(QUIETLY) $(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet -c docs -d build/doctrees
.venv/docs: .venv/ready
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

docs: .venv/docs
	@rm -rf build/site build/shown
	$(SPHINX) --fresh-env -b doctest . build/doctest
	$(SPHINX) -b html . build/site
	@echo build/site/index.html

# dist: the sources, and a wheel for this CPython (pybind11 has no ABI that is common to several) and
# every Linux whose C library is as new as what was linked here; with kernels where nvcc is.
wheel: .venv/ready
	@rm -rf dist build/wheel && mkdir -p build/wheel
	@echo "Builds the wheel as pip would, with nothing of .venv: a few minutes"
	@{ $(QUIETLY) $(BIN)/python -m build --outdir build/wheel . && \
	  PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl; } \
	  > build/wheel/log 2>&1 || { cat build/wheel/log; exit 1; }
	@mv build/wheel/*.tar.gz dist
	@ls -1 dist/*

# The tutorial to its end, from that wheel in a new environment, beside another torch than .venv's.
OTHER_TORCH ?= torch==2.12.1
wheel-check: wheel
	$(BIN)/python -m tests.tutorial dist/patallreduce-*.whl --torch "$(OTHER_TORCH)"

# mypy follows no package_dir mapping: show it the package as it installs.
$(TYPED): .venv/ready
	rm -rf $(TYPED) && mkdir -p $(TYPED)/patallreduce
	ln -s $(filter-out %.so %__pycache__,$(wildcard $(CURDIR)/patallreduce/*)) $(CURDIR)/hooks $(TYPED)/patallreduce/

lint: .venv/ready $(TYPED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(TYPED) $(BIN)/mypy
	@echo "clang-format --dry-run --Werror of all C++"
	@$(BIN)/clang-format --dry-run --Werror $(NATIVE) $(NATIVE_TESTS) $(FAKES) $(BENCHMARKED)

# Files that include those of one folder of csrc each, for most of a compiler's work is what these share;
# what is written for one instruction set stays a file of its own.
ONE_SET := $(filter %/avx2.cpp %/avx512.cpp,$(NATIVE))
SHARING := $(filter-out $(ONE_SET),$(filter csrc/%.cpp,$(NATIVE)))
together = $(patsubst %/,build/together/%.cpp,$(sort $(dir $(filter $(SHARING),$(1))))) $(filter-out $(SHARING),$(1))
.PRECIOUS: build/together/%.cpp
build/together/%.cpp: %
	@mkdir -p $(@D)
	@for file in $(sort $(filter $(SHARING),$(wildcard $*/*.cpp))); do echo "#include \"$${file#csrc/}\""; done > $@

# The core without Python under the sanitizers; SEED=... repeats a run. `strict` is at -O0, where
# nothing is inlined, and linked as a whole: a name defined twice is an error.
SEED ?= 1
LIBUCX = $(dir $(shell $(BIN)/python -c 'import libucx; print(libucx.__file__)'))
SANITIZED := $(call together,$(filter %.cpp,$(filter-out csrc/bindings/%,$(NATIVE)) $(filter tests/native/%,$(NATIVE_TESTS))))
STRICT := @tests/native/strict.flags
export TSAN_OPTIONS := halt_on_error=1 suppressions=tests/native/thread.suppressions
# Of thread-local memory of a loaded library GCC 12's runtime guesses the length from what lies before
# it; where that memory begins a page, LeakSanitizer then reads a wild address (one run in about 60).
export ASAN_OPTIONS := detect_stack_use_after_return=1 intercept_tls_get_addr=0
export UBSAN_OPTIONS := halt_on_error=1 print_stacktrace=1

sanitize: .venv/ready
	$(MAKE) --no-print-directory -j $(JOBS) build/strict/core_tests build/thread/core_tests INCLUDE=$(LIBUCX)include
	build/strict/core_tests $(SEED) $(LIBUCX)lib/libucp.so.0
# UCX patches the code of mmap for its registration cache, which crashes ThreadSanitizer's own.
	UCX_MEM_MMAP_HOOK_MODE=none build/thread/core_tests $(SEED) $(LIBUCX)lib/libucp.so.0

# The standard library is compiled once, for that is most of the work at -O0.
build/strict/standard.h.gch: csrc/standard.h tests/native/strict.flags
	@mkdir -p $(@D)
	@echo $@
	@g++ $(STRICT) -x c++-header $< -o $@
build/strict/%.o: %.cpp build/strict/standard.h.gch
	@mkdir -p $(@D)
	@echo $@
	@g++ $(STRICT) -MMD -MP -include build/strict/standard.h -Icsrc -isystem $(INCLUDE) -c $< -o $@
build/strict/core_tests: $(SANITIZED:%.cpp=build/strict/%.o)
	@echo $@
	@g++ $(STRICT) $^ -pthread -ldl -o $@
build/thread/%.o: %.cpp
	@mkdir -p $(@D)
	@echo $@
	@g++ -std=c++17 -O1 -g -fsanitize=thread -fno-omit-frame-pointer -ffp-contract=off \
	  -MMD -MP -Icsrc -isystem $(INCLUDE) -c $< -o $@
build/thread/core_tests: $(SANITIZED:%.cpp=build/thread/%.o)
	@echo $@
	@g++ -fsanitize=thread $^ -pthread -ldl -o $@

# The engine in simulated time, in many interleavings of its ranks: SEEDS of them from FIRST on.
FIRST ?= 1
SEEDS ?= 1000000
interleavings: .venv/ready
	$(MAKE) --no-print-directory -j $(JOBS) build/simulated/interleavings INCLUDE=$(LIBUCX)include
	seq $(FIRST) 10000 $$(($(FIRST) + $(SEEDS) - 1)) | \
	  xargs -P $(JOBS) -I{} build/simulated/interleavings {} 10000

INTERLEAVED := $(call together,$(filter csrc/executor/%.cpp csrc/schedule/%.cpp csrc/algorithms/%.cpp \
  csrc/pricing/%.cpp csrc/reduction/%.cpp tests/interleavings/%.cpp,$(NATIVE) $(NATIVE_TESTS)))
SIMULATED := -std=c++17 -O1 -g1 -DPATALLREDUCE_SIMULATED_TIME -D_GLIBCXX_ASSERTIONS -ffp-contract=off
build/simulated/standard.h.gch: csrc/standard.h
	@mkdir -p $(@D)
	@echo $@
	@g++ $(SIMULATED) -x c++-header $< -o $@
build/simulated/%.o: %.cpp build/simulated/standard.h.gch
	@mkdir -p $(@D)
	@echo $@
	@g++ $(SIMULATED) -MMD -MP -include build/simulated/standard.h -Icsrc -isystem $(INCLUDE) -c $< -o $@
build/simulated/interleavings: $(INTERLEAVED:%.cpp=build/simulated/%.o)
	@echo $@
	@g++ $^ -pthread -ldl -o $@
# An engine and a leader among strangers, from the kept inputs on, then whoever reads a file: FUZZ_S
# seconds each. Needs clang 16 or newer with its libFuzzer (Debian: clang-19, libclang-rt-19-dev).
FUZZ_S ?= 600
CLANG ?= clang++-19
FUZZED := $(call together,$(filter $(foreach folder,executor schedule algorithms pricing reduction selection prediction monitor,csrc/$(folder)/%.cpp),$(NATIVE))) csrc/transport/sockets.cpp
fuzz: .venv/ready
	$(MAKE) --no-print-directory -j $(JOBS) build/fuzz/engine build/fuzz/leader INCLUDE=$(LIBUCX)include
	for one in engine leader; do \
	  mkdir -p build/fuzz/inputs_$$one && tar -xzf tests/fuzz/inputs/$$one.tar.gz -C build/fuzz/inputs_$$one && \
	  build/fuzz/$$one -max_total_time=$(FUZZ_S) -max_len=1024 -timeout=60 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$$one- build/fuzz/inputs_$$one || exit 1; \
	done
	$(BIN)/python -m tests.fuzz.files --seconds $(FUZZ_S)

build/fuzz/%.o: %.cpp
	@mkdir -p $(@D)
	@echo $@
	@$(CLANG) -std=c++17 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
	  -DPATALLREDUCE_SIMULATED_TIME -ffp-contract=off -MMD -MP -Icsrc -isystem $(INCLUDE) -c $< -o $@
build/fuzz/engine build/fuzz/leader: build/fuzz/%: $(FUZZED:%.cpp=build/fuzz/%.o) build/fuzz/tests/fuzz/harness.o build/fuzz/tests/fuzz/%.o
	@echo $@
	@$(CLANG) -fsanitize=fuzzer,address,undefined $^ -pthread -ldl -o $@
# The kept inputs alone, without clang: part of `make test`.
build/simulated/replay_engine build/simulated/replay_leader: build/simulated/replay_%: \
  $(FUZZED:%.cpp=build/simulated/%.o) $(addprefix build/simulated/tests/fuzz/,harness.o replay.o %.o)
	@echo $@
	@g++ $^ -pthread -ldl -o $@

-include $(shell find build/fuzz build/strict build/thread build/simulated -name '*.d' 2>/dev/null)

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE) $(NATIVE_TESTS) $(FAKES) $(BENCHMARKED)

clean:
	rm -rf .venv build dist out *.egg-info patallreduce/*.so
