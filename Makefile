# The front door. `make run` and `make test` do everything from a fresh Debian 12 machine on.

BUILD_PACKAGES := g++ cmake ninja-build ccache mold pkg-config \
  libfmt-dev libspdlog-dev nlohmann-json3-dev libexpected-dev libcli11-dev libpcre2-dev libedit-dev libhwloc-dev libb2-dev \
  libboost1.81-dev prometheus-cpp-dev libgtest-dev libgmock-dev
TEST_PACKAGES := librapidcheck-dev clang-format-16 python3-numpy
LINT_PACKAGES := clang-tidy-16
PAGE_PACKAGES := chromium chromium-driver python3-selenium
FUZZ_PACKAGES := clang-16 libclang-rt-16-dev

PROGRAM := build/release/cachalot
PORT := 8000
FUZZ_SECONDS := 600

.PHONY: help run build test shipped clients asan-all tsan-all unit asan tsan e2e oracle same-tokens emulated format-check format lint fuzz clean test-packages page-test

help:
	@echo "make run     build and serve the shipped model at http://127.0.0.1:8000 (PORT=8000)"
	@echo "make test    build and pass all tests, sanitizers included"
	@echo "make build   the program alone: $(PROGRAM)"
	@echo "make oracle  all seeds against the independent numpy model, where it lies beside the checkout"
	@echo "make same-tokens  answers to the bit over all settings of the engine, on four models"
	@echo "make emulated  AVX-512 and AMX on a machine without (needs PyPI)"
	@echo "make page-test  the web page in Chromium, by the keyboard, against a server with canned answers"
	@echo "make asan-all tsan-all  all unit tests under sanitizers; \`make test\` leaves out what takes long"
	@echo "make lint    clang-tidy over the sources;  make format  clang-format in place"
	@echo "make api-fuzz  requests made from docs/openapi.json against the server (needs PyPI)"
	@echo "make fuzz    each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"

run: build
	@$(PROGRAM) serve -m models/calf --port $(PORT)

build:
	@tools/install-packages.sh $(BUILD_PACKAGES)
	@cmake --preset release -DCACHALOT_TESTS=OFF >/dev/null
	@cmake --build --preset release --target cachalot

test: format-check shipped clients asan tsan
	@echo "all tests pass"

test-packages:
	@tools/install-packages.sh $(BUILD_PACKAGES) $(TEST_PACKAGES)

unit: test-packages
	cmake --preset release -DCACHALOT_TESTS=ON >/dev/null
	cmake --build --preset release
	ctest --preset release -L unit -j 2

e2e: unit
	ctest --preset release -L e2e

# Every unit test runs under sanitizers but those that concern the shipped code's arithmetic, take too long to run or to
# build with them (commands, the server's dialects, the NPU and its emulator): these run here. asan-all has all of them.
shipped: test-packages
	cmake --preset release -DCACHALOT_TESTS=ON >/dev/null
	cmake --build --preset release --target cachalot e2e_tests ascend_emulator_example ascend_emulator_test ascend_model_test \
	  backends_ascend_test backends_cpu_test checkpoint_test cli_test engine_test scheduler_test server_test
	ctest --preset release -R 'unit.(ascend_.*|backends_.*|checkpoint|cli|engine|scheduler|server)' -j 2
	ctest --preset release -L e2e

# The server, asked by those who mean it harm, and by the official clients of OpenAI and Anthropic; these come from PyPI,
# and a machine that does not reach it goes without.
CLIENTS := build/clients/bin/python
clients: build
	@tools/install-packages.sh python3-venv
	/usr/bin/python3 -B tests/server/hostile_test.py $(PROGRAM) models/calf
	@test -x $(CLIENTS) || /usr/bin/python3 -m venv build/clients
	@if $(CLIENTS) -m pip install -q --timeout 15 --retries 2 -r tests/server/requirements.txt; then \
	  $(CLIENTS) -B tests/server/clients_test.py $(PROGRAM) models/calf && \
	  CACHALOT_SCHEMAS=60 $(CLIENTS) -B tests/server/schemas_test.py $(PROGRAM) models/calf; \
	else echo "PyPI is out of reach: the official clients were not tried"; fi

# Left out is what takes minutes there and runs as shipped.
asan: test-packages
	cmake --preset asan -DCACHALOT_SANITIZE_ALL=OFF -DCACHALOT_ASCEND_EMULATOR=OFF >/dev/null
	cmake --build --preset asan --target unit_tests
	CACHALOT_COMPLETIONS=200 GTEST_FILTER='-*Resumption*:*SchedulerProperty*:*SchedulerFault*:KernelBench.*:*.CutsIntoStepsChangeNoBit:*.ThreadsChangeNoBit:Nano/Damaged.NamesTheTensor/0:Nano/Damaged.NamesTheTensor/2:Weights.LoadsAtAnyAlignment:OfNano/EveryTensor*:*DeviceFault*:CacheTiers.Give*:CacheTiers.Bring*:CacheTiers.Find*:StepLoop.CancelsInEveryState:*GraphSteps*:PlacedWeights*:Executor.Replays*:ModelRunner.RunsModels*:ModelRunner.GivesTheSame*:ModelRunner.HasRoom*:*TellsTheLogprobsOfAPrompt*:*TheAnswerThatItHasAlone*' ctest --preset asan -L unit -j 2

# All unit tests under sanitizers, however long they take.
asan-all: test-packages
	cmake --preset asan -DCACHALOT_SANITIZE_ALL=ON -DCACHALOT_ASCEND_EMULATOR=ON >/dev/null
	cmake --build --preset asan --target unit_tests
	ctest --preset asan -L unit -j 2

# Threads meet in the pool, in the HTTP server, and where the engine meets callers, its disk and the kernels of a forward
# pass; this last takes minutes to build and is left to tsan-all.
tsan: test-packages
	cmake --preset tsan >/dev/null
	cmake --build --preset tsan --target threads_test http_test
	build/tsan/threads_test --gtest_brief=1
	build/tsan/http_test --gtest_brief=1 --gtest_filter='HttpServerTest.*'

tsan-all: tsan
	cmake --build --preset tsan --target engine_test
	build/tsan/engine_test --gtest_brief=1 --gtest_filter='EngineRequests.*:CacheTiers.OfAn*:CacheTiers.*Disk*:ModelRunner.*'

# The whole matrix of tests/same_tokens; `test` runs a part of it.
same-tokens: unit
	CACHALOT_SAME_TOKENS=all build/release/same_tokens_test

oracle: unit
	CACHALOT_ORACLE_SEEDS=1,2,3,4,5,6 ctest --preset release -L oracle

format-check: test-packages
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format-16 --dry-run --Werror
	@/usr/bin/python3 -B tools/type-names.py

format:
	@tools/install-packages.sh clang-format-16
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format-16 -i

# AVX-512 and AMX on machines without: a sample of the instructions, then logits. Not part of `test`: needs PyPI.
emulated: build
	@tools/install-packages.sh python3-venv gcc
	python3 -m venv build/emulator && build/emulator/bin/pip install -q bochscpu-python==0.4.0
	tests/emulated/check.sh build/emulator/bin/python $(PROGRAM)

# Not part of `test`: a browser is 300 MB. PAGE_FLAGS="--url http://127.0.0.1:8000/" has it talk with a server that runs.
page-test:
	@tools/install-packages.sh $(PAGE_PACKAGES)
	/usr/bin/python3 -B tests/page/page_test.py $(PAGE_FLAGS)

# Not part of `test`: takes minutes, and needs PyPI. API_FUZZ_EXAMPLES is for each endpoint.
API_FUZZ_EXAMPLES := 100
.PHONY: api-fuzz
api-fuzz: build
	@tools/install-packages.sh python3-venv
	/usr/bin/python3 -m venv build/schemathesis && build/schemathesis/bin/pip install -q schemathesis==4.32.5
	build/schemathesis/bin/python -B tests/server/fuzz_test.py $(PROGRAM) models/calf docs/openapi.json \
	  --phases examples,coverage,fuzzing --max-examples $(API_FUZZ_EXAMPLES)

lint:
	@tools/install-packages.sh $(BUILD_PACKAGES) $(TEST_PACKAGES) $(LINT_PACKAGES)
	cmake --preset dev >/dev/null
	git ls-files 'src/*.cc' | grep -v -e _test.cc -e avx2.cc -e avx512.cc | xargs -P 2 -n 8 clang-tidy-16 --quiet -p build/dev

fuzz:
	@tools/install-packages.sh $(BUILD_PACKAGES) $(TEST_PACKAGES) $(FUZZ_PACKAGES)
	cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz --target fuzzers
	tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
