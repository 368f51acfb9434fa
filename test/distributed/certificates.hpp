// SPDX-License-Identifier: BSL-1.0
#pragma once

// Authorities and certificates for tests, in a folder that ends with them.
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <weft/transport/tls.hpp>

namespace test {

inline void must(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("OpenSSL fails: ") + what);
}

class authority {
 public:
  explicit authority(const char* subject = "authority") {
    char name[] = "/tmp/weft-certificates-XXXXXX";
    must(::mkdtemp(name) != nullptr, "mkdtemp");
    folder_ = name;
    key_ = make_key();
    certificate_ = make(subject, key_, "", 1, true);
    write(folder_ + "/ca.pem", [&](FILE* to) { return PEM_write_X509(to, certificate_); });
  }
  authority(const authority&) = delete;
  ~authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
    std::filesystem::remove_all(folder_);
  }

  const std::string& folder() const { return folder_; }
  std::string file() const { return folder_ + "/ca.pem"; }

  /// A certificate with these names ("URI:weft:/job:ps"), valid for so many days from now, which may be negative; and
  /// its key. Their files are <file>.pem and <file>.key.
  void sign(const std::string& file, const std::string& names, int days = 1) const {
    EVP_PKEY* const key = make_key();
    X509* const certificate = make(file.c_str(), key, names, days, false);
    write(folder_ + "/" + file + ".pem", [&](FILE* to) { return PEM_write_X509(to, certificate); });
    write(folder_ + "/" + file + ".key",
          [&](FILE* to) { return PEM_write_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  /// The same, loaded, with this authority or another one.
  weft::tls_credentials credentials(const std::string& file, const std::string& names, int days = 1,
                                    const authority* trusted = nullptr) const {
    sign(file, names, days);
    return weft::tls_credentials::from_files(folder_ + "/" + file + ".pem", folder_ + "/" + file + ".key",
                                             (trusted ? trusted : this)->file());
  }

 private:
  static EVP_PKEY* make_key() {
    EVP_PKEY_CTX* const by = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nullptr);
    EVP_PKEY* made = nullptr;
    must(by && EVP_PKEY_keygen_init(by) == 1 && EVP_PKEY_CTX_set_ec_paramgen_curve_nid(by, NID_X9_62_prime256v1) == 1 &&
             EVP_PKEY_keygen(by, &made) == 1,
         "a key");
    EVP_PKEY_CTX_free(by);
    return made;
  }

  X509* make(const char* subject, EVP_PKEY* key, const std::string& names, int days, bool is_authority) const {
    X509* const made = X509_new();
    static long serial = 1;
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made), -10 * 86400L);
    X509_gmtime_adj(X509_getm_notAfter(made), days * 86400L);
    X509_set_pubkey(made, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject), -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(is_authority ? made : certificate_));
    const auto add = [&](int what, const std::string& value) {
      X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
      must(extension && X509_add_ext(made, extension, -1) == 1, value.c_str());
      X509_EXTENSION_free(extension);
    };
    if (is_authority) add(NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) add(NID_subject_alt_name, names);
    must(X509_sign(made, is_authority ? key : key_, EVP_sha256()) > 0, "signing");
    return made;
  }

  template <typename Write>
  static void write(const std::string& path, Write write) {
    FILE* const to = std::fopen(path.c_str(), "w");
    must(to && ::chmod(path.c_str(), 0600) == 0 && write(to) == 1, path.c_str());
    std::fclose(to);
  }

  std::string folder_;
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
};

}  // namespace test
