// The handler of SIGBUS, installed while a mapping is guarded.
#pragma once

namespace ht::inline v1::io {

/// Keeps the handler installed while one of these lives. Faults that it does not treat go to the handler that
/// was installed before, which is installed again with the last of these; unless the program has installed
/// another one on top meanwhile, which may rely on this one.
class FaultHandler {
 public:
  /// Throws std::bad_alloc: a mapping without the handler would be unguarded.
  FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler();
};

}  // namespace ht::inline v1::io
