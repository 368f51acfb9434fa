// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <boost/math/special_functions/nonfinite_num_facets.hpp>

#include <exception>
#include <locale>
#include <sstream>
#include <string>

#include <weft/error.hpp>

/// Serializes a program's own types with Boost.Serialization. The text archives are portable, and contain the class
/// versions that BOOST_CLASS_VERSION defines.
namespace weft::detail {

/// The classic locale, with facets that read and write infinities and NaN: streams write these but cannot read them.
inline const std::locale& archive_locale() {
  static const std::locale locale(std::locale(std::locale::classic(), new boost::math::nonfinite_num_put<char>),
                                  new boost::math::nonfinite_num_get<char>);
  return locale;
}

template <class T>
std::string to_archive(const T& object) {
  std::ostringstream stream;
  stream.imbue(archive_locale());
  {
    boost::archive::text_oarchive archive(stream, boost::archive::no_codecvt);
    archive << object;
  }
  return std::move(stream).str();
}

/// Throws data_loss if the bytes are not an archive of a T, or if a newer program has added members to it. `where` is
/// for messages. After an error, `object` keeps the members that were read before it.
template <class T>
void from_archive(const std::string& bytes, T& object, const std::string& where) {
  try {
    std::istringstream stream(bytes);
    stream.imbue(archive_locale());
    boost::archive::text_iarchive archive(stream, boost::archive::no_codecvt);
    archive >> object;
    if (!(stream >> std::ws).eof())
      throw error(error_code::data_loss, "restore",
                  {where,
                   " has data left after the object: it was saved with another type, or by a newer program; "
                   "pass the saver an object of the saved type"});
  } catch (const error&) {
    throw;
  } catch (const std::exception& e) {  // for example a vector that exceeds memory
    throw error(error_code::data_loss, "restore", {where, " cannot be read as an object of this type: ", e.what()});
  }
}

}  // namespace weft::detail
