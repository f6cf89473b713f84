# The operators of DeepSeek-V4: attention, compression, indexer, hyper-connections, rope, scatter.
set(EMULATOR_DSV4_OPS
  ops/attention_metadata.cc
  ops/compressor.cc
  ops/compressor_metadata.cc
  ops/core_schedule.cc
  ops/hyper_connections.cc
  ops/lightning_indexer.cc
  ops/rope.cc
  ops/scatter.cc
  ops/sparse_attention.cc)
set(EMULATOR_DSV4_TESTS
  tests/dsv4_ops_test.cc)
