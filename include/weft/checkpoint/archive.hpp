#pragma once

#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <boost/math/special_functions/nonfinite_num_facets.hpp>

#include <exception>
#include <locale>
#include <sstream>
#include <string>

#include <weft/error.hpp>

/// A program's own types as bytes, by Boost.Serialization: text archives, which are the same on every machine, with the
/// version that BOOST_CLASS_VERSION gives each class.
namespace weft::detail {

/// Numbers in no language's way of writing them, and infinities and NaN too, which streams write and do not read.
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

/// Throws data_loss if the bytes are no archive of such an object: of another type, or of a newer program's, which has
/// more in it. `where` is for messages. The part that is read before that stays.
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
                   " has more in it than such an object: it is of another type, or of a newer program's; give "
                   "the saver what was saved"});
  } catch (const error&) {
    throw;
  } catch (const std::exception& e) {  // such as a vector of more elements than memory holds
    throw error(error_code::data_loss, "restore", {where, " is no such object: ", e.what()});
  }
}

}  // namespace weft::detail
