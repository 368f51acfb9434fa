// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weft/nn/layer.hpp>
#include <weft/nn/members.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/sequence.hpp>

/// Finds the layers and variables of a model. Their names are the names of the members.
WEFT_COLD_BEGIN
namespace weft {
class session;
}  // namespace weft

namespace weft::nn {

/// A layer's variable and its name in the layer: "weights".
struct named_parameter {
  std::string_view name;
  const weft::detail::handle* variable;
};

/// The variables of a layer. Refers to an array.
class parameter_list {
 public:
  parameter_list(std::initializer_list<named_parameter> each) : parameter_list(each.begin(), each.size()) {}
  parameter_list(const named_parameter* first, std::size_t count) : first_(first), count_(count) {}

  const named_parameter* begin() const { return first_; }
  const named_parameter* end() const { return first_ + count_; }
  std::size_t size() const { return count_; }

 private:
  const named_parameter* first_;
  std::size_t count_;
};

/// Receives each layer of a model with its path: "encoder/hidden". A model with base classes, private members or a
/// constructor must list its members in a function:
///
///     void visit(const std::string& path, nn::layer_visitor& v) const {
///       v(path, "stem", stem);
///       v(path, "head", head);
///     }
class layer_visitor {
 public:
  /// Visits the layers and variables of a member: a layer, a model, a variable, or a list of these.
  template <class T>
  void operator()(const std::string& path, std::string_view name, const T& member);

  virtual void layer(const std::string& path, const layer_state&, const parameter_list&) = 0;
  /// Receives a variable that is a member of a model and does not belong to a layer. The handle can be empty, or a node
  /// that is not a variable.
  virtual void variable(const std::string& path, const weft::detail::handle&) = 0;
  /// Until `leave`, the layers are parts of one recurrent layer at this path: "stacked" ones, named by their indices,
  /// or the two of a "bidirectional" one.
  virtual void enter(const std::string& /*path*/, const char* /*kind*/) {}
  virtual void leave() {}

  /// Begins the visit of an object. Returns false if the object is already being visited, because a pointer leads back
  /// to it.
  bool begin(const void* object, const void* type);
  void end() { objects_.pop_back(); }
  /// Until end_borrowed(), the visited objects are behind a raw pointer or a std::reference_wrapper.
  void begin_borrowed() { ++borrowed_; }
  void end_borrowed() { --borrowed_; }

 protected:
  ~layer_visitor() = default;
  bool is_borrowed() const { return borrowed_ > 0; }

 private:
  struct visited {
    const void *object, *type;
  };
  sequence<visited> objects_;
  int borrowed_ = 0;
};

/// A class without a function `visit` that Weft cannot examine: it is not an aggregate, has more than 32 members,
/// bases, references or unnamed unions, or is a lambda with captures.
template <class Part>
struct model_has_no_named_members : mistake<true> {};

/// The keys of a map of layers must be integers, enumerations or strings, because they name the layers.
template <class Key>
struct map_key_is_not_a_name : mistake<true> {};

namespace detail {

template <std::size_t Size>
struct zero_bytes {
  unsigned char each[Size];
};
/// A constant expression if T has no pointers, references or unions.
template <class T>
constexpr bool can_be_made_of_bytes() {
  static_cast<void>(__builtin_bit_cast(T, zero_bytes<sizeof(T)>{}));
  return true;
}
/// A trivially copyable class without pointers, as far as this can be determined; includes lambdas that capture
/// numbers.
template <class T>
concept WithoutPointers =
    std::is_trivially_copyable_v<T> &&
    (alignof(T) < alignof(void*) || requires { typename std::bool_constant<can_be_made_of_bytes<T>()>; });

}  // namespace detail

/// True if members of this type contain neither layers nor variables. Specialize it for a class that Weft cannot
/// examine: `template <> inline constexpr bool weft::nn::has_no_layers<my_options> = true;`. By default it is true for
/// numbers, and for aggregates and lambdas that contain only numbers.
template <class T>
inline constexpr bool has_no_layers =
    !std::is_class_v<T> && !std::is_union_v<T> && !std::is_pointer_v<T> && !std::is_array_v<T>;
template <class T>
  requires(std::is_class_v<T> || std::is_union_v<T>)
inline constexpr bool has_no_layers<T> =
    detail::WithoutPointers<T> || (Expression<T> && !std::is_base_of_v<weft::detail::handle, T>) ||
    std::is_same_v<T, effect> || std::is_same_v<T, layer_state>;
template <>
inline constexpr bool has_no_layers<graph> = true;
template <>
inline constexpr bool has_no_layers<session> = true;

namespace detail {

/// A class with a function `visit` for its members. If a derived class inherits `visit`, it lists only the base's
/// members.
template <class T>
concept Visitable = requires(const T& t, const std::string& path, layer_visitor& v) { t.visit(path, v); };

template <class Base>
constexpr std::size_t size_of_visited(void (Base::*)(const std::string&, layer_visitor&) const) {
  return sizeof(Base);
}
/// Returns true if T inherits `visit` and has members of its own.
template <class T>
constexpr bool visits_only_its_base() {
  if constexpr (requires { size_of_visited(&T::visit); })
    return size_of_visited(&T::visit) != sizeof(T);
  else
    return false;
}

template <class T>
concept List = requires(T& t) {
  typename T::value_type;
  t.begin() != t.end();
};
/// std::map or std::unordered_map: its keys are names. A std::multimap is a list of pairs.
template <class T>
concept Map = List<const T> && requires(const T& t, const typename T::key_type& key) {
  requires std::is_same_v<typename T::value_type, std::pair<const typename T::key_type, typename T::mapped_type>>;
  t.at(key);
};

/// A pair or a tuple, whose members are numbered.
template <class T>
concept Tuple = requires { std::tuple_size<T>::value; };
/// A type that can own a layer: std::optional, std::unique_ptr, std::shared_ptr.
template <class T>
concept Owner = requires(const T& t) {
  *t;
  static_cast<bool>(t);
};
/// A std::reference_wrapper, recognized without including its header.
template <class T>
concept Wrapper = requires(const T& t) {
  typename T::type;
  requires std::is_same_v<decltype(t.get()), typename T::type&>;
  requires std::is_convertible_v<const T&, typename T::type&>;
};
/// A std::variant, recognized without including its header.
template <class T>
concept Variant = requires(const T& t) {
  t.index();
  t.valueless_by_exception();
};

/// Returns true for a trivially copyable class of the standard library or of Weft. If it is none of the above, it
/// contains only numbers: std::complex, std::chrono::duration, random number engines, shape.
template <class T>
constexpr bool is_library_value() {
  constexpr std::string_view name = name_of_type<T>();
  return std::is_trivially_copyable_v<T> &&
         (name.find("T = std::") != name.npos || name.find("T = weft::") != name.npos);
}

struct call_operator {
  void operator()() const;
};
/// Adds a second call operator, so `&T::operator()` is ambiguous if T already has one.
template <class T>
struct with_another_call : T, call_operator {};
/// Returns true if a class that Weft cannot examine can be a layer or a model, because it can be called. Classes of the
/// standard library are not layers, and a final class cannot be tested.
template <class T>
constexpr bool can_be_called() {
  if constexpr (!std::is_class_v<T> || std::is_final_v<T> ||
                name_of_type<T>().find("T = std::") != std::string_view::npos)
    return false;
  else
    return !requires { &with_another_call<T>::operator(); };
}

/// The way in which the layers of a part are found.
enum class part_kind : unsigned char {
  none,
  variable,
  visited,  ///< with a function `visit`
  list,
  map,
  pointer,  ///< or an owner: `*part`
  wrapper,
  variant,
  tuple,
  members,
  unknown
};

template <class T>
constexpr part_kind kind_of_part() {
  if constexpr (has_no_layers<T>) {
    return part_kind::none;
  } else if constexpr (std::is_pointer_v<T>) {
    using pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_pointer_v<pointee>)
      return part_kind::pointer;
    else if constexpr ((!std::is_class_v<pointee> && !std::is_union_v<pointee>) || !requires { sizeof(pointee); })
      return part_kind::none;  // handles of other libraries are often pointers to incomplete classes
    else if constexpr (constexpr part_kind kind = kind_of_part<pointee>(); kind == part_kind::unknown)
      return can_be_called<pointee>() ? part_kind::unknown : part_kind::none;
    else
      return kind == part_kind::none ? part_kind::none : part_kind::pointer;
  } else if constexpr (std::is_base_of_v<weft::detail::handle, T>) {
    return part_kind::variable;
  } else if constexpr (Visitable<T>) {
    return visits_only_its_base<T>() ? part_kind::unknown : part_kind::visited;
  } else if constexpr (Wrapper<T>) {
    return part_kind::wrapper;
  } else if constexpr (Map<T>) {
    return part_kind::map;
  } else if constexpr (List<const T>) {
    return part_kind::list;
  } else if constexpr (Owner<T>) {
    return part_kind::pointer;
  } else if constexpr (Variant<T>) {
    return part_kind::variant;
  } else if constexpr (Tuple<T>) {
    return part_kind::tuple;
  } else if constexpr (std::is_aggregate_v<T>) {
    return count_named_members<T>() == no_members ? part_kind::unknown : part_kind::members;
  } else {
    return is_library_value<T>() ? part_kind::none : part_kind::unknown;
  }
}

template <class...>
struct part_types {};
struct make_part_types {
  template <class... Each>
  part_types<std::remove_cv_t<Each>...> operator()(const Each&...) const {
    return {};
  }
};

/// The types of the parts of T that must be examined.
template <class T>
constexpr auto parts_of() {
  constexpr part_kind kind = kind_of_part<T>();
  if constexpr (kind == part_kind::list)
    return part_types<typename T::value_type>();
  else if constexpr (kind == part_kind::map)
    return part_types<typename T::mapped_type>();
  else if constexpr (kind == part_kind::pointer)
    return part_types<std::remove_cvref_t<decltype(*std::declval<const T&>())>>();
  else if constexpr (kind == part_kind::wrapper)
    return part_types<std::remove_cv_t<typename T::type>>();
  else if constexpr (kind == part_kind::members)
    return decltype(with_members<count_named_members<T>()>(std::declval<const T&>(), make_part_types()))();
  else if constexpr (kind == part_kind::variant)
    return []<template <class...> class Whole, class... Each>(const Whole<Each...>*) {
      return part_types<std::remove_cvref_t<Each>...>();
    }(static_cast<const T*>(nullptr));
  else if constexpr (kind == part_kind::tuple)
    return []<std::size_t... Index>(std::index_sequence<Index...>) {
      return part_types<std::remove_cvref_t<std::tuple_element_t<Index, T>>...>();
    }(std::make_index_sequence<std::tuple_size<T>::value>());
  else if constexpr (kind == part_kind::visited && requires { typename T::layer_parts; })
    return parts_of<typename T::layer_parts>();
  else
    return part_types<>();
}

template <class... Around, class... Each>
constexpr bool some_hold_layers(part_types<Each...>);

/// Returns true if objects of type T can contain layers or variables. `Around` are the types that contain T.
template <class T, class... Around>
constexpr bool can_hold_layers() {
  constexpr part_kind kind = kind_of_part<T>();
  if constexpr ((std::is_same_v<T, Around> || ...))
    return false;
  else if constexpr (std::is_same_v<T, layer_state> || kind == part_kind::variable || kind == part_kind::visited ||
                     kind == part_kind::unknown)
    return true;
  else
    return some_hold_layers<T, Around...>(parts_of<T>());
}
template <class... Around, class... Each>
constexpr bool some_hold_layers(part_types<Each...>) {
  return (can_hold_layers<std::remove_all_extents_t<Each>, Around...>() || ...);
}

template <class Key>
concept NamingKey =
    std::is_convertible_v<const Key&, std::string_view> || std::is_integral_v<Key> || std::is_enum_v<Key>;

/// Returns true for a map with layers as keys or values whose keys cannot be names.
template <class T>
constexpr bool is_map_without_names() {
  if constexpr (kind_of_part<T>() != part_kind::map)
    return false;
  else if constexpr (NamingKey<typename T::key_type>)
    return false;
  else
    return some_hold_layers<T>(part_types<typename T::key_type, typename T::mapped_type>());
}

template <class... Around, class... Each>
constexpr auto find_unknown_among(part_types<Each...>);

/// Returns the mistake of the first part of T, at any depth, that Weft cannot examine. `Around` are the types that
/// contain T, because a type can have pointers to itself.
template <class T, class... Around>
constexpr auto find_unknown_part() {
  if constexpr ((std::is_same_v<T, Around> || ...))
    return mistake<false>();
  else if constexpr (kind_of_part<T>() == part_kind::unknown)
    return model_has_no_named_members<T>();
  else if constexpr (is_map_without_names<T>())
    return map_key_is_not_a_name<typename T::key_type>();
  else
    return find_unknown_among<T, Around...>(parts_of<T>());
}
template <class... Around, class... Each>
constexpr auto find_unknown_among(part_types<Each...>) {
  return first_mistake<mistake<false>, decltype(find_unknown_part<std::remove_all_extents_t<Each>, Around...>())...>();
}

}  // namespace detail

/// The mistake of a model's part that Weft cannot examine, if there is one.
template <class Part>
using part_mistake = decltype(detail::find_unknown_part<std::remove_all_extents_t<Part>>());

/// A model must not be a number, a string or an activation.
template <class Model>
struct model_has_no_parts : mistake<!std::is_class_v<Model> && !std::is_array_v<Model> &&
                                    detail::kind_of_part<Model>() == detail::part_kind::none> {};

template <class Model>
using model_mistake = first_mistake<model_has_no_parts<Model>, part_mistake<Model>>;

#define WEFT_NEEDS_LAYERS                                                                                             \
  "a part of a model is a layer, a variable, or an aggregate of at most 32 of them without bases, references, "       \
  "unnamed unions and lambdas that capture; another class lists its members: void visit(const std::string& path, "    \
  "nn::layer_visitor& v) const { v(path, \"name\", member); }, or declares that it has none: has_no_layers<T>; keys " \
  "of a map of layers must be integers, enumerations or strings"

namespace detail {

std::string path_of(const std::string& outer, std::string_view name);
std::string path_of(const std::string& outer, std::size_t index);
/// Returns the path of a map's element. Throws invalid_argument if the key is empty or contains "/" or ".", the
/// separators of Weft's and PyTorch's names.
std::string path_of_key(const std::string& outer, std::string_view key);
template <class Key>
std::string path_of_key(const std::string& outer, const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>)
    return path_of_key(outer, std::string_view(key));
  else if constexpr (std::is_enum_v<Key>)
    return path_of_key(outer, static_cast<std::underlying_type_t<Key>>(key));
  else
    return path_of(outer, str_cat({key}));
}

template <class T>
void visit_any(const std::string& path, const T& t, layer_visitor& v);

/// Has a distinct address for each type.
template <class T>
inline constexpr char type_mark = 0;

/// Adds a member if it is a variable.
template <class T>
void add_parameter(sequence<named_parameter>& parameters, std::string_view name, const T& member) {
  if constexpr (std::is_base_of_v<weft::detail::handle, T> && !has_no_layers<T>) parameters.push_back({name, &member});
}
inline const layer_state* find_state() { return nullptr; }
template <class First, class... Rest>
const layer_state* find_state(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, layer_state>)
    return &first;
  else
    return find_state(rest...);
}

/// Visits the members of an aggregate. If it has a layer_state, it is a layer, and its variables belong to the layer.
template <std::size_t Count, class T>
void visit_members(const std::string& path, const T& t, layer_visitor& v) {
  with_members<Count>(t, [&](const auto&... m) {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      constexpr bool is_layer = (std::is_same_v<std::remove_cvref_t<decltype(m)>, layer_state> || ...);
      [[maybe_unused]] const auto visit = [&]<class Part>(std::string_view name, const Part& member) {
        if constexpr (!has_no_layers<Part> && !(is_layer && std::is_base_of_v<weft::detail::handle, Part>))
          visit_any(path_of(path, name), member, v);
      };
      (visit(member_name<T, Count, Index>(), m), ...);
      if constexpr (is_layer) {
        sequence<named_parameter> parameters;
        (add_parameter(parameters, member_name<T, Count, Index>(), m), ...);
        v.layer(path, *find_state(m...), {parameters.data(), parameters.size()});
      }
    }(std::make_index_sequence<sizeof...(m)>());
  });
}

/// Visits the layers and variables of a part.
template <class T>
void visit_any(const std::string& path, const T& t, layer_visitor& v) {
  if constexpr (std::is_array_v<T>) {
    if constexpr (!has_no_layers<std::remove_all_extents_t<T>>)
      for (std::size_t i = 0; i < std::extent_v<T>; ++i) visit_any(path_of(path, i), t[i], v);
  } else {
    constexpr part_kind kind = kind_of_part<T>();
    if constexpr (kind == part_kind::variable) {
      v.variable(path, t);
    } else if constexpr (kind == part_kind::visited || kind == part_kind::members) {
      if (!v.begin(&t, &type_mark<T>)) return;
      if constexpr (kind == part_kind::visited)
        t.visit(path, v);
      else
        visit_members<count_named_members<T>()>(path, t, v);
      v.end();
    } else if constexpr (kind == part_kind::map) {
      if constexpr (NamingKey<typename T::key_type>)
        for (const auto& [key, each] : t) visit_any(path_of_key(path, key), each, v);
    } else if constexpr (kind == part_kind::list) {
      if constexpr (!has_no_layers<typename T::value_type>) {
        std::size_t i = 0;
        for (const auto& each : t) visit_any(path_of(path, i++), each, v);
      }
    } else if constexpr (kind == part_kind::pointer) {
      if (!t) return;
      if constexpr (std::is_pointer_v<T>) v.begin_borrowed();
      visit_any(path, *t, v);
      if constexpr (std::is_pointer_v<T>) v.end_borrowed();
    } else if constexpr (kind == part_kind::wrapper) {
      v.begin_borrowed();
      visit_any(path, t.get(), v);
      v.end_borrowed();
    } else if constexpr (kind == part_kind::variant) {
      if (!t.valueless_by_exception()) visit([&](const auto& m) { visit_any(path, m, v); }, t);
    } else if constexpr (kind == part_kind::tuple) {
      with_members<std::tuple_size<T>::value>(t, [&](const auto&... m) {
        std::size_t i = 0;
        (visit_any(path_of(path, i++), m, v), ...);
      });
    }
  }
}

/// Visits the layers and variables of a model.
template <class Model>
void visit_model(const std::string& path, const Model& model, layer_visitor& v) {
  if constexpr (correct<model_mistake<Model>>) visit_any(path, model, v);
}

#if WEFT_DEFINITIONS

WEFT_DECL std::string path_of(const std::string& outer, std::string_view name) {
  return outer.empty() ? std::string(name) : str_cat({outer, "/", std::string(name)});
}
WEFT_DECL std::string path_of(const std::string& outer, std::size_t index) { return path_of(outer, str_cat({index})); }
WEFT_DECL std::string path_of_key(const std::string& outer, std::string_view key) {
  if (key.empty() || key.find_first_of("/.") != key.npos)
    throw error(error_code::invalid_argument, outer.empty() ? "model" : outer,
                {"the key \"", std::string(key),
                 "\" of a map of layers cannot be a name: use a key that is not empty and contains neither \"/\" nor "
                 "\".\", which join names"});
  return path_of(outer, key);
}

#endif

}  // namespace detail

template <class T>
void layer_visitor::operator()(const std::string& path, std::string_view name, const T& member) {
  static_assert(correct<part_mistake<T>>, WEFT_NEEDS_LAYERS);
  if constexpr (correct<part_mistake<T>>) detail::visit_any(detail::path_of(path, name), member, *this);
}

#if WEFT_DEFINITIONS

WEFT_DECL bool layer_visitor::begin(const void* object, const void* type) {
  for (const visited& each : objects_)
    if (each.object == object && each.type == type) return false;
  objects_.push_back({object, type});
  return true;
}

#endif

}  // namespace weft::nn
WEFT_COLD_END
