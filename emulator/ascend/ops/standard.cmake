# The operators of the standard library, and what the custom package has of them under other names.
set(EMULATOR_STANDARD_OPS
  ops/standard/dynamic_quant.cc
  ops/standard/elementwise.cc
  ops/standard/format_cast.cc
  ops/standard/gather.cc
  ops/standard/grouped_matmul.cc
  ops/standard/matmul.cc
  ops/standard/matrix.cc
  ops/standard/moe_gating.cc
  ops/standard/moe_routing.cc
  ops/standard/quant_matmul.cc
  ops/standard/reduce.cc
  ops/standard/rms_norm.cc
  ops/standard/rows.cc
  ops/standard/swiglu.cc)
# Without vector loops a product takes ten times as long.
set_source_files_properties(ops/standard/matrix.cc PROPERTIES COMPILE_OPTIONS -O3)
set(EMULATOR_STANDARD_TESTS expert_ops_test.cc standard_ops_test.cc)
