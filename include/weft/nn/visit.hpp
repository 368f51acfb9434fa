#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weft/nn/layer.hpp>

/// The layers of a model, and their names: those of its members.
WEFT_COLD_BEGIN
namespace weft::nn {

/// A layer's variable under its name in the layer: "weights".
struct named_parameter {
  const char* name;
  weft::detail::handle* variable;
};

/// Receives each layer of a model, with its path in the model: "encoder/hidden". A model with base classes, private
/// members or a constructor lists its layers by a function of its own:
///
///     void visit(const std::string& path, nn::layer_visitor& v) const {
///       v(path, "stem", stem);
///       v(path, "head", head);
///     }
class layer_visitor {
 public:
  /// The layers of a member: of a layer, a model, or a list of them.
  template <class T>
  void operator()(const std::string& path, std::string_view name, const T& member);

  virtual void layer(const std::string& path, const layer_state&, std::initializer_list<named_parameter>) = 0;
  /// Until `leave`, layers are those of one recurrent layer at this path: "stacked" ones, whose names are their
  /// numbers, or the two of a "bidirectional" one.
  virtual void enter(const std::string& /*path*/, const char* /*kind*/) {}
  virtual void leave() {}

 protected:
  ~layer_visitor() = default;
};

/// A type without members that Weft can name: it is no aggregate of at most 32 members, and has no function `visit`.
template <class Model>
struct model_has_no_named_members : mistake<true> {};

/// Whether members of this type, in a model, hold no layers, which are never trivially copyable. Specialise it for a
/// class that Weft cannot look into: `template <> inline constexpr bool weft::nn::has_no_layers<my_options> = true;`.
template <class T>
inline constexpr bool has_no_layers =
    std::is_trivially_copyable_v<T> || Expression<T> || std::is_base_of_v<weft::detail::handle, T>;

namespace detail {

/// Converts to any member of an aggregate, to count them.
struct any_member {
  template <class T>
  operator T() const;
};

inline constexpr std::size_t max_members = 32, max_initializers = 256;

/// The most initializers that an aggregate takes: one for each member, but one for each element of an array. Fewer may
/// be too few, where a member has no default value. A number above max_initializers if they are more, or unknown.
template <class T, bool Enough = false, class... Initializers>
constexpr std::size_t count_initializers() {
  constexpr std::size_t count = sizeof...(Initializers);
  if constexpr (count > max_initializers || (!Enough && count > max_members))
    return max_initializers + 1;
  else if constexpr (requires { T{std::declval<Initializers>()...}; })
    return count_initializers<T, true, Initializers..., any_member>();
  else if constexpr (Enough)
    return count - 1;
  else
    return count_initializers<T, false, Initializers..., any_member>();
}

/// Whether T{{}, {}, ...} compiles: then no member is an array of several elements, if T takes `Count` initializers.
template <class T, std::size_t Count>
constexpr bool takes_braces() {
  if constexpr (Count == 0) return true;
#define WEFT_BRACES_8 \
  {}, {}, {}, {}, {}, {}, {}, {}
#define WEFT_BRACES(count, ...) else if constexpr (Count == count) return requires { T{__VA_ARGS__}; };
  WEFT_BRACES(1, {})
  WEFT_BRACES(2, {}, {})
  WEFT_BRACES(3, {}, {}, {})
  WEFT_BRACES(4, {}, {}, {}, {})
  WEFT_BRACES(5, {}, {}, {}, {}, {})
  WEFT_BRACES(6, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(7, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(9, WEFT_BRACES_8, {})
  WEFT_BRACES(10, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(11, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(12, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(13, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(14, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(15, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(16, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(17, WEFT_BRACES_8, WEFT_BRACES_8, {})
  WEFT_BRACES(18, WEFT_BRACES_8, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(19, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(20, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(21, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(22, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(23, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(24, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(25, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {})
  WEFT_BRACES(26, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {})
  WEFT_BRACES(27, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {})
  WEFT_BRACES(28, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {})
  WEFT_BRACES(29, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {})
  WEFT_BRACES(30, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(31, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {})
  WEFT_BRACES(32, WEFT_BRACES_8, WEFT_BRACES_8, WEFT_BRACES_8, {}, {}, {}, {}, {}, {}, {}, {})
#undef WEFT_BRACES
#undef WEFT_BRACES_8
  else return false;
}

/// Whether T{a, ..., {b, ...}, c, ...} compiles.
template <class T, std::size_t Before, std::size_t Within, std::size_t Behind>
constexpr bool takes_nested() {
  return []<std::size_t... A, std::size_t... B, std::size_t... C>(std::index_sequence<A...>, std::index_sequence<B...>,
                                                                  std::index_sequence<C...>) {
    return requires {
      T{(static_cast<void>(A), any_member())...,
        {(static_cast<void>(B), any_member())...},
        (static_cast<void>(C), any_member())...};
    };
  }(std::make_index_sequence<Before>(), std::make_index_sequence<Within>(), std::make_index_sequence<Behind>());
}

/// The number of elements of the array that begins with initializer `At` of `Count`; 1 if none does. In braces, the
/// elements take the place of one member, and nothing else does without further members.
template <class T, std::size_t Count, std::size_t At, std::size_t Elements = 2>
constexpr std::size_t elements_of_array() {
  if constexpr (At + Elements > Count)
    return 1;
  else if constexpr (takes_nested<T, At, Elements, Count - At - Elements>() &&
                     !takes_nested<T, At, Elements, Count - At - Elements + 1>())
    return Elements;
  else
    return elements_of_array<T, Count, At, Elements + 1>();
}
template <class T, std::size_t Count, std::size_t At = 0>
constexpr std::size_t count_members_from() {
  if constexpr (At >= Count)
    return 0;
  else
    return 1 + count_members_from<T, Count, At + elements_of_array<T, Count, At>()>();
}

/// The members of an aggregate; a number above max_members if they are more, or unknown.
template <class T>
constexpr std::size_t count_members() {
  constexpr std::size_t count = count_initializers<T>();
  if constexpr (count > max_initializers)
    return count;
  else if constexpr (takes_braces<T, count>())
    return count;
  else
    return count_members_from<T, count>();
}

/// function(member...) of an aggregate of at most 32 members.
template <std::size_t Count, class T, class F>
constexpr decltype(auto) with_members(T& object, F&& function) {
  if constexpr (Count == 0) return function();
#define WEFT_MEMBERS(count, ...)       \
  else if constexpr (Count == count) { \
    auto& [__VA_ARGS__] = object;      \
    return function(__VA_ARGS__);      \
  }
  WEFT_MEMBERS(1, a)
  WEFT_MEMBERS(2, a, b)
  WEFT_MEMBERS(3, a, b, c)
  WEFT_MEMBERS(4, a, b, c, d)
  WEFT_MEMBERS(5, a, b, c, d, e)
  WEFT_MEMBERS(6, a, b, c, d, e, f)
  WEFT_MEMBERS(7, a, b, c, d, e, f, g)
  WEFT_MEMBERS(8, a, b, c, d, e, f, g, h)
  WEFT_MEMBERS(9, a, b, c, d, e, f, g, h, i)
  WEFT_MEMBERS(10, a, b, c, d, e, f, g, h, i, j)
  WEFT_MEMBERS(11, a, b, c, d, e, f, g, h, i, j, k)
  WEFT_MEMBERS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  WEFT_MEMBERS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  WEFT_MEMBERS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  WEFT_MEMBERS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  WEFT_MEMBERS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  WEFT_MEMBERS(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  WEFT_MEMBERS(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  WEFT_MEMBERS(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  WEFT_MEMBERS(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u)
  WEFT_MEMBERS(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v)
  WEFT_MEMBERS(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w)
  WEFT_MEMBERS(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x)
  WEFT_MEMBERS(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y)
  WEFT_MEMBERS(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z)
  WEFT_MEMBERS(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa)
  WEFT_MEMBERS(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab)
  WEFT_MEMBERS(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac)
  WEFT_MEMBERS(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad)
  WEFT_MEMBERS(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae)
  WEFT_MEMBERS(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae, af)
  WEFT_MEMBERS(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u, v, w, x, y, z, aa, ab, ac, ad, ae, af,
               ag)
#undef WEFT_MEMBERS
}

// The name of a member is in the name of a function whose template argument is the member's address.

#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wundefined-var-template"
  #pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class T>
struct wrapped {
  T value;
};
template <class T>
extern const wrapped<T> no_model;  // never defined: only addresses of its members are formed

template <class Member>
struct member_pointer {
  const Member* address;
};
template <std::size_t Index, class First, class... Rest>
constexpr auto pointer_to(const First& first, const Rest&... rest) {
  if constexpr (Index == 0)
    return member_pointer<First>{&first};
  else
    return pointer_to<Index - 1>(rest...);
}
template <class T, std::size_t Count, std::size_t Index>
consteval auto pointer_in() {
  return with_members<Count>(no_model<T>.value, [](const auto&... m) { return pointer_to<Index>(m...); });
}
#if defined(__clang__)
  #pragma clang diagnostic pop
#endif
template <auto Pointer>
constexpr std::string_view function_name() {
  return __PRETTY_FUNCTION__;
}

/// "first" in "...member_pointer<...>{(& no_model<lenet>.wrapped<lenet>::value.lenet::first)}...".
template <class T, std::size_t Count, std::size_t Index>
consteval std::string_view member_name() {
  const std::string_view text = function_name<pointer_in<T, Count, Index>()>();
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::size_t end = text.rfind('}');
  while (!is_letter(text[end - 1])) --end;
  std::size_t begin = end;
  while (is_letter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <class T>
concept Visitable = requires(const T& t, const std::string& path, layer_visitor& v) { t.visit(path, v); };
template <class T>
concept List = requires(T& t) {
  typename T::value_type;
  t.begin() != t.end();
};

/// A pair or a tuple, whose members have numbers.
template <class T>
concept Tuple = requires { std::tuple_size<T>::value; };
/// Something that may own a layer: std::optional, std::unique_ptr, std::shared_ptr.
template <class T>
concept Owner = std::is_class_v<T> && requires(const T& t) {
  *t;
  static_cast<bool>(t);
};

/// A std::variant, whose header only programs that have one include.
template <class T>
concept Variant = requires(const T& t) {
  t.index();
  t.valueless_by_exception();
};

std::string path_of(const std::string& outer, std::string_view name);
std::string path_of(const std::string& outer, std::size_t index);

template <class T>
void visit_any(const std::string& path, const T& t, layer_visitor& v);

template <std::size_t Count, class T>
void visit_members(const std::string& path, const T& t, layer_visitor& v) {
  with_members<Count>(t, [&](const auto&... m) {
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      (visit_any(path_of(path, member_name<T, Count, Index>()), m, v), ...);
    }(std::make_index_sequence<sizeof...(m)>());
  });
}

/// A member of a model whose layers would be skipped: they would be neither named nor saved.
template <class T>
constexpr void refuse_members_without_names() {
  static_assert(correct<model_has_no_named_members<T>>,
                "a part of a model is an aggregate of at most 32 members, or lists its layers: void visit(const "
                "std::string& path, nn::layer_visitor& v) const { v(path, \"name\", member); }; has_no_layers<T> says "
                "that it has none");
}

/// Members that hold no layers, numbers for instance, are passed over.
template <class T>
void visit_any(const std::string& path, const T& t, layer_visitor& v) {
  if constexpr (std::is_array_v<T>) {
    using element = std::remove_all_extents_t<T>;
    if constexpr (std::is_class_v<element> && !has_no_layers<element>)
      for (std::size_t i = 0; i < std::extent_v<T>; ++i) visit_any(path_of(path, i), t[i], v);
  } else if constexpr (Visitable<T>) {
    t.visit(path, v);
  } else if constexpr (!std::is_class_v<T> || has_no_layers<T>) {
    return;
  } else if constexpr (List<const T>) {
    if constexpr (std::is_class_v<typename T::value_type>) {
      std::size_t i = 0;
      for (const auto& each : t) visit_any(path_of(path, i++), each, v);
    }
  } else if constexpr (Owner<T>) {
    if (t) visit_any(path, *t, v);
  } else if constexpr (Variant<T>) {
    if (!t.valueless_by_exception()) visit([&](const auto& m) { visit_any(path, m, v); }, t);
  } else if constexpr (Tuple<T>) {
    with_members<std::tuple_size<T>::value>(t, [&](const auto&... m) {
      std::size_t i = 0;
      (visit_any(path_of(path, i++), m, v), ...);
    });
  } else if constexpr (std::is_aggregate_v<T>) {
    constexpr std::size_t members = count_members<T>();
    if constexpr (members > max_members || (members == 0 && !std::is_empty_v<T>))
      refuse_members_without_names<T>();
    else
      visit_members<members>(path, t, v);
  } else {
    refuse_members_without_names<T>();
  }
}

/// The layers of a whole model.
template <class Model>
void visit_model(const std::string& path, const Model& model, layer_visitor& v) {
  constexpr bool has_members = Visitable<Model> || List<const Model> || std::is_aggregate_v<Model> || Owner<Model> ||
                               Variant<Model> || Tuple<Model>;
  static_assert(correct<std::conditional_t<has_members, mistake<false>, model_has_no_named_members<Model>>>,
                "a model is an aggregate of layers, or lists them: void visit(const std::string& path, "
                "nn::layer_visitor& v) const { v(path, \"name\", member); }");
  if constexpr (has_members) visit_any(path, model, v);
}

#if WEFT_DEFINITIONS

WEFT_DECL std::string path_of(const std::string& outer, std::string_view name) {
  return outer.empty() ? std::string(name) : str_cat({outer, "/", std::string(name)});
}
WEFT_DECL std::string path_of(const std::string& outer, std::size_t index) { return path_of(outer, str_cat({index})); }

#endif

}  // namespace detail

template <class T>
void layer_visitor::operator()(const std::string& path, std::string_view name, const T& member) {
  detail::visit_any(detail::path_of(path, name), member, *this);
}

}  // namespace weft::nn
WEFT_COLD_END
