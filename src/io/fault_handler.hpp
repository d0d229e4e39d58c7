// The one piece of global state: the handler of SIGBUS, there while somebody has a mapping to guard.
#pragma once

namespace ht::inline v1::io {

/// While one of these lives, a page of registered memory that cannot be read does not end the process. What
/// the signal meant before is kept for faults elsewhere, and is put back with the last of these; unless
/// somebody has put a handler of their own on top meanwhile, which may rely on this one.
class FaultHandler {
 public:
  FaultHandler() noexcept;
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler();
};

}  // namespace ht::inline v1::io
