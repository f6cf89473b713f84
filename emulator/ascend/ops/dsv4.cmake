# The operators of DeepSeek-V4: attention, compression, indexer, hyper-connections, rope, scatter.
set(EMULATOR_DSV4_OPS
  ops/attention_metadata.cc
  ops/compressor.cc
  ops/compressor_kernel.cc
  ops/compressor_metadata.cc
  ops/core_schedule.cc
  ops/hyper_connections.cc
  ops/indexer_metadata.cc
  ops/lightning_indexer.cc
  ops/rope.cc
  ops/scatter.cc
  ops/sparse_attention.cc)
# Beside tests/. The schedule is not exported: its test brings its own.
set(EMULATOR_DSV4_TESTS
  ../ops/core_schedule.cc
  core_schedule_test.cc
  dsv4_checks_test.cc
  dsv4_ops_test.cc
  dsv4_rows_test.cc)
