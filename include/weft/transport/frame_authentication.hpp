// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <weft/encoding/sha256.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <algorithm>

  #if defined(WEFT_HAS_OPENSSL)
    #include <openssl/evp.h>
  #endif
#endif

namespace weft {

/// A key that two tasks have derived from shared knowledge: 16 bytes for AES and 4 for each nonce.
using frame_key = std::span<const std::byte, 20>;

using frame_tag = std::array<std::byte, 16>;

/// True if this program can authenticate frames and use TLS.
#if defined(WEFT_HAS_OPENSSL)
inline constexpr bool has_openssl = true;
#else
inline constexpr bool has_openssl = false;
#endif
/// The remedy if OpenSSL is missing; ends an error message.
inline constexpr const char* build_with_openssl =
    "install libssl-dev and build it again (without CMake: with -DWEFT_HAS_OPENSSL=1 -lssl -lcrypto)";

namespace detail {

/// Computes the tags of frames in one direction of a connection: AES-128-GMAC (NIST SP 800-38D) over header and
/// payload. Only holders of the key can compute a tag. The nonce counts frames, so a frame that is repeated, omitted or
/// out of order has the wrong tag.
class frame_authenticator {
 public:
  /// Throws weft::error (failed_precondition) if this program was built without OpenSSL.
  explicit frame_authenticator(frame_key key);

  void begin_frame();
  void add(std::span<const std::byte> bytes);
  frame_tag finish_frame();

 private:
#if defined(WEFT_HAS_OPENSSL)
  struct release {
    void operator()(void* context) const;
  };

  std::unique_ptr<void, release> context_;  // an EVP_CIPHER_CTX
  std::array<std::byte, 12> nonce_{};       // 4 bytes of the key, and the number of the frame
  std::uint64_t frames_ = 0;
#endif
};

/// The authentication of both directions.
struct frame_authentication {
  frame_authenticator sending, receiving;

  frame_authentication(frame_key sends, frame_key receives) : sending(sends), receiving(receives) {}
};

/// Returns a stream's authentication, or null if its frames have no tags.
template <typename Stream>
frame_authentication* authentication_of(Stream& stream) {
  if constexpr (requires { stream.authentication(); })
    return stream.authentication();
  else
    return nullptr;
}

#if WEFT_DISTRIBUTED_DEFINITIONS

  #if defined(WEFT_HAS_OPENSSL)

/// Throws weft::error (internal) if an OpenSSL function has failed.
inline void check_cipher(int result) {
  if (result != 1) throw error(error_code::internal, "authenticate", "OpenSSL cannot compute AES-128-GMAC");
}

inline EVP_CIPHER_CTX* cipher_of(void* context) { return static_cast<EVP_CIPHER_CTX*>(context); }

WEFT_DISTRIBUTED_DECL void frame_authenticator::release::operator()(void* context) const {
  EVP_CIPHER_CTX_free(cipher_of(context));
}

WEFT_DISTRIBUTED_DECL frame_authenticator::frame_authenticator(frame_key key) : context_(EVP_CIPHER_CTX_new()) {
  std::copy_n(key.begin() + 16, 4, nonce_.begin());
  check_cipher(context_ != nullptr);
  check_cipher(EVP_EncryptInit_ex(cipher_of(context_.get()), EVP_aes_128_gcm(), nullptr,
                                  reinterpret_cast<const unsigned char*>(key.data()), nullptr));
}

WEFT_DISTRIBUTED_DECL void frame_authenticator::begin_frame() {
  put_little(nonce_.data() + 4, frames_++);
  check_cipher(EVP_EncryptInit_ex(cipher_of(context_.get()), nullptr, nullptr, nullptr,
                                  reinterpret_cast<const unsigned char*>(nonce_.data())));
}

WEFT_DISTRIBUTED_DECL void frame_authenticator::add(std::span<const std::byte> bytes) {
  constexpr std::size_t at_once = std::size_t{1} << 30;  // OpenSSL takes the size as an int
  for (int ignored = 0; !bytes.empty();) {
    const std::size_t n = std::min(bytes.size(), at_once);
    check_cipher(EVP_EncryptUpdate(cipher_of(context_.get()), nullptr, &ignored,
                                   reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(n)));
    bytes = bytes.subspan(n);
  }
}

WEFT_DISTRIBUTED_DECL frame_tag frame_authenticator::finish_frame() {
  frame_tag tag;
  unsigned char none[16];
  int ignored = 0;
  check_cipher(EVP_EncryptFinal_ex(cipher_of(context_.get()), none, &ignored));
  check_cipher(
      EVP_CIPHER_CTX_ctrl(cipher_of(context_.get()), EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data()));
  return tag;
}

  #else

WEFT_DISTRIBUTED_DECL frame_authenticator::frame_authenticator(frame_key) {
  throw error(error_code::failed_precondition, "authenticate",
              "this program was built without OpenSSL, which is required to authenticate connections between hosts");
}
WEFT_DISTRIBUTED_DECL void frame_authenticator::begin_frame() {}
WEFT_DISTRIBUTED_DECL void frame_authenticator::add(std::span<const std::byte>) {}
WEFT_DISTRIBUTED_DECL frame_tag frame_authenticator::finish_frame() { return {}; }

  #endif

#endif

}  // namespace detail
}  // namespace weft
