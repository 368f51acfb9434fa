// SPDX-License-Identifier: BSL-1.0
// weft_launch: starts the tasks of a cluster, here or on other hosts over ssh, and stays with them until all have
// ended.
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/encoding/json.hpp>
#include <weft/error.hpp>
#include <weft/transport/random_bytes.hpp>

using namespace weft;

namespace {

using std::chrono::steady_clock;

[[noreturn]] void fail(std::initializer_list<piece> why) {
  throw error(error_code::invalid_argument, "weft_launch", why);
}
[[noreturn]] void fail_by_system(const char* what) {
  throw error(error_code::unavailable, "weft_launch", {what, ": ", std::strerror(errno)});
}

struct settings {
  int tasks = 0, ps = 0, restarts = 0, task_restarts = 0;
  std::uint16_t port = 0;
  double grace = 35;  // more than server_options::stop_patience
  std::vector<std::string> hosts, ssh, env, program;
  std::string folder;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

constexpr const char* usage =
    R"(weft_launch: starts the tasks of a cluster and waits until all of them have ended

usage:
  weft_launch -n 4 --ps 1 [--hosts a,b] [--restart 3 | --restart_task 3] -- ./program arguments
  weft_launch --make_secret FILE
  weft_launch --version

Every task runs the program with its own TF_CONFIG, which cluster_spec::from_environment() reads. The lines that tasks
print are merged, each after the name of its task. When a task fails, the launcher ends all tasks with SIGTERM, then
with SIGKILL. It does the same when it receives SIGINT, SIGTERM or SIGHUP. It forwards SIGUSR1 and SIGUSR2 to all tasks.

A task fails if a signal ends it, or if its exit status is not 0. With --restart N, all tasks then start again. With
--restart_task N, only the failed task starts again, after 1 s; the delay doubles with each failure up to 30 s, and is
1 s again after a minute without a failure. The other tasks continue: choose a strategy that waits for lost tasks. The
exit status is that of the first task that is not started again, 128 plus the number of the signal that ended the
launcher, or 0.

The second form writes a random secret to a new file of mode 0600, for tasks that are started by hand on several hosts.

)";

std::optional<settings> read_command_line(int argc, char** argv) {
  namespace po = boost::program_options;
  settings s;
  std::string hosts, ssh, secret_file;
  int port = 0;
  po::options_description options("options");
  options.add_options()("help,h", "prints this text")("version", "prints the version of Weft")                 //
      ("tasks,n", po::value(&s.tasks)->required(), "number of tasks: parameter servers and workers together")  //
      ("ps", po::value(&s.ps)->default_value(0), "number of tasks that are parameter servers")                 //
      ("hosts", po::value(&hosts),
       "host,host,...: the hosts that tasks are assigned to in turn; default: this host")  //
      ("port", po::value(&port)->default_value(0),
       "port of the first task on each host; the next task uses the next port; 0: any free ports")  //
      ("restart", po::value(&s.restarts)->default_value(0),
       "how many times all tasks are started again after a failure")  //
      ("restart_task", po::value(&s.task_restarts)->default_value(0),
       "how many times each task is started again after it fails, while the others continue")  //
      ("grace", po::value(&s.grace)->default_value(s.grace),
       "seconds between SIGTERM and SIGKILL, in which worker 0 can save a checkpoint")  //
      ("ssh", po::value(&ssh)->default_value("ssh -o BatchMode=yes"),
       "the command that runs a program on another host")                                                      //
      ("chdir", po::value(&s.folder), "the working directory on other hosts; default: the current directory")  //
      ("env", po::value(&s.env),
       "NAME or NAME=VALUE: an environment variable for all tasks, on other hosts too; repeatable")  //
      ("make_secret", po::value(&secret_file), "writes a random secret to this new file and exits");
  // The words after -- are the program's, whatever they look like.
  char** const program = std::find_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
  po::variables_map given;
  try {
    po::store(po::command_line_parser(static_cast<int>(program - argv), argv).options(options).positional({}).run(),
              given);
  } catch (const po::too_many_positional_options_error&) {
    fail({"only options are allowed before --; write -- before the program: weft_launch -n 2 -- ./program"});
  }
  if (given.count("help")) {
    std::ostringstream text;
    text << options;
    std::printf("%s%s", usage, text.str().c_str());
    return {};
  }
  if (given.count("version")) {
    std::puts("weft_launch " WEFT_VERSION_STRING);
    return {};
  }
  if (given.count("make_secret")) {
    if (given.count("tasks") || program != argv + argc)
      fail({"--make_secret starts no tasks, so it takes no other arguments; remove them"});
    cluster_secret::make_file(given["make_secret"].as<std::string>());
    return {};
  }
  po::notify(given);
  if (program != argv + argc) s.program.assign(program + 1, argv + argc);
  if (s.program.empty()) fail({"a program is required after --; see weft_launch --help"});
  constexpr int most = 4096;
  if (s.tasks < 1 || s.tasks > most) fail({"-n must be from 1 to ", most, "; it is ", s.tasks});
  if (s.ps < 0 || s.ps >= s.tasks)
    fail({"--ps must be at least 0 and less than the ", s.tasks, " tasks; it is ", s.ps});
  if (s.restarts < 0) fail({"--restart must not be negative"});
  if (s.task_restarts < 0) fail({"--restart_task must not be negative"});
  if (s.restarts > 0 && s.task_restarts > 0)
    fail(
        {"--restart starts all tasks again after a failure, and --restart_task only the one that failed; give only one "
         "of them"});
  if (!(s.grace >= 0 && s.grace <= 86'400)) fail({"--grace must be from 0 to 86400 seconds"});
  if (port < 0 || port > 65'535 - s.tasks)
    fail({"--port must be at least 0, and the port plus the number of tasks at most 65535; it is ", port});
  s.port = static_cast<std::uint16_t>(port);
  s.hosts = split(hosts, ',');
  s.ssh = split(ssh, ' ');
  if (s.ssh.empty()) fail({"--ssh requires a command"});
  for (std::string& each : s.env) {
    const std::string name = each.substr(0, each.find('='));
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) {
          return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        }))
      fail({"--env ", each, " is not NAME or NAME=VALUE"});
    if (name != each) continue;
    const char* const value = std::getenv(name.c_str());
    if (!value) fail({"--env ", name, ": this variable is not set here; write NAME=VALUE"});
    each = name + "=" + value;
  }
  for (const std::string& each : s.env)
    if (each.find('\n') != std::string::npos) fail({"--env cannot pass a value of more than one line: ", each});
  return s;
}

// ---- the places of the tasks ----

std::string name_of_this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Ports of this machine that are free and stay so. They are bound, and nobody listens: a task may still, as it allows
/// addresses to be used again, and nobody is given them by chance.
class held_ports {
 public:
  held_ports() = default;
  held_ports(const held_ports&) = delete;
  ~held_ports() {
    for (const int each : sockets_) ::close(each);
  }
  std::uint16_t hold() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) fail_by_system("cannot open a socket");
    sockets_.push_back(socket);
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(socket, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      fail_by_system("cannot bind a port");
    return ntohs(at.sin_port);
  }

 private:
  std::vector<int> sockets_;
};

struct task {
  task_id id;
  std::string host;  // empty: a process of this machine
  endpoint address;
};

std::vector<task> place_tasks(const settings& s, held_ports& ports) {
  std::vector<task> tasks;
  const bool local = std::all_of(s.hosts.begin(), s.hosts.end(), [](const std::string& h) { return is_loopback(h); });
  std::uint16_t first = s.port;
  if (!local && first == 0) {
    std::array<std::byte, 2> random;
    fill_random(random);
    first = static_cast<std::uint16_t>(
        10'000 + (std::to_integer<unsigned>(random[0]) * 256 + std::to_integer<unsigned>(random[1])) %
                     (20'000 - static_cast<unsigned>(s.tasks)));
  }
  for (int i = 0; i < s.tasks; ++i) {
    task t;
    t.id = i < s.ps ? task_id{"ps", i} : task_id{"worker", i - s.ps};
    const std::string host = s.hosts.empty() ? "127.0.0.1" : s.hosts[static_cast<std::size_t>(i) % s.hosts.size()];
    if (!is_loopback(host) && host != name_of_this_host()) t.host = host;
    const auto before =
        std::count_if(tasks.begin(), tasks.end(), [&](const task& u) { return u.address.host == host; });
    const std::uint16_t port = local && s.port == 0 ? ports.hold() : static_cast<std::uint16_t>(first + before);
    const bool ipv6 = host.find(':') != std::string::npos;
    t.address = parse_endpoint(str_cat({ipv6 ? "[" : "", host, ipv6 ? "]" : "", ":", port}));
    tasks.push_back(std::move(t));
  }
  return tasks;
}

std::string tf_config(const std::vector<task>& tasks, const task& self) {
  std::string text = "{\"cluster\": {";
  for (const char* job : {"ps", "worker"}) {
    std::string addresses;
    for (const task& t : tasks)
      if (t.id.job == job)
        append(addresses, {addresses.empty() ? "" : ", ", weft::detail::json_string(to_string(t.address))});
    if (!addresses.empty()) append(text, {text.back() == '{' ? "" : ", ", "\"", job, "\": [", addresses, "]"});
  }
  append(text, {"}, \"task\": {\"type\": \"", self.id.job, "\", \"index\": ", self.id.index, "}}"});
  return text;
}

// ---- processes ----

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) c == '\'' ? text += "'\\''" : text += c;
  return text + "'";
}

/// The script of a shell on another host: it reads variables, one a line up to an empty one, runs the program, and
/// sends it the signals that are read after that. The end of its input, when this process or the connection is gone,
/// ends the program. Signals are for all processes of the program, and none stays after it, where the host has setsid.
std::string remote_script(const settings& s) {
  std::string folder = s.folder;
  if (folder.empty()) {
    std::array<char, 4096> here{};
    if (!::getcwd(here.data(), here.size())) fail_by_system("cannot get the current directory");
    folder = here.data();
  }
  std::string command;
  for (const std::string& word : s.program) append(command, {" ", quoted(word)});
  const int grace = static_cast<int>(s.grace) + 1;
  return str_cat(
      {"while IFS= read -r line && [ -n \"$line\" ]; do export \"$line\"; done; cd ", quoted(folder),
       " || exit 1; group=$(command -v setsid); heeds=; ",
       // A shell has what it starts behind an & ignore SIGINT.
       "env --default-signal=INT,QUIT true 2> /dev/null && heeds='env --default-signal=INT,QUIT'; exec 3<&0; ",
       "$group $heeds", command, " < /dev/null 3<&- & program=$!; ",
       // Before setsid has made the group there is the process alone.
       "to_all() { { [ -n \"$group\" ] && kill -s \"$1\" -- -$program; } || kill -s \"$1\" $program; }; ",
       "{ while IFS= read -r signal; do [ \"$signal$heeds\" = INT ] && signal=TERM; to_all \"$signal\"; done; ",
       "to_all TERM; left=", grace, "; while [ $left -gt 0 ] && to_all 0; do sleep 1; left=$((left - 1)); done; ",
       "to_all KILL; } <&3 > /dev/null 2>&1 & exec 3<&-; ", "wait $program; status=$?; kill $! 2> /dev/null; ",
       "[ -z \"$group\" ] || kill -s KILL -- -$program 2> /dev/null; exit $status"});
}

struct pipe_ends {
  int read = -1, write = -1;
  pipe_ends() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_by_system("cannot open a pipe");
    read = ends[0], write = ends[1];
  }
};

/// Where lines go, this process's own output. A reader that reads it slowly, or not at all, holds up the tasks' lines,
/// and not the rest that is to be done.
class line_output {
 public:
  explicit line_output(int to) : to_(to) {}

  int descriptor() const { return to_; }
  bool is_terminal() const { return ::isatty(to_); }
  /// Whether all that was added is written.
  bool is_idle() const { return text_.empty(); }
  /// Text of whole lines.
  void add(const std::string& lines) {
    text_ += lines;
    advance();
  }
  /// Writes what can be written at once: whole lines, so that they stay whole where others write there too.
  void advance() {
    std::size_t begin = 0;
    for (pollfd ready{to_, POLLOUT, 0}; begin < text_.size() && ::poll(&ready, 1, 0) == 1;) {
      constexpr std::size_t most = PIPE_BUF;  // for which there is room where there is any
      const std::size_t end = text_.size() - begin <= most ? text_.size() : text_.rfind('\n', begin + most - 1) + 1;
      const ssize_t size = ::write(to_, text_.data() + begin, end > begin ? end - begin : most);
      if (size < 0 && (errno == EINTR || errno == EAGAIN)) break;
      if (size < 0) return text_.clear();  // nobody reads it any more
      begin += static_cast<std::size_t>(size);
    }
    text_.erase(0, begin);
  }

 private:
  int to_;
  std::string text_;
};

/// Lines of a task, as they come, each behind the task's name.
class line_printer {
 public:
  line_printer(int from, line_output& to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}
  line_printer(line_printer&& other) noexcept
      : from_(std::exchange(other.from_, -1)),
        to_(other.to_),
        prefix_(std::move(other.prefix_)),
        line_(std::move(other.line_)) {}
  ~line_printer() { close(); }

  int descriptor() const { return from_; }
  const line_output& to() const { return to_; }

  void take() {
    std::array<char, 1 << 16> bytes;
    const ssize_t size = ::read(from_, bytes.data(), bytes.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) return close();
    line_.append(bytes.data(), static_cast<std::size_t>(size));
    std::size_t begin = 0;
    for (std::size_t end; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1) print(begin, end);
    line_.erase(0, begin);
    if (line_.size() > max_line) print(0, line_.size()), line_.clear();
    to_.add(std::exchange(lines_, {}));
  }
  void close() {
    if (from_ < 0) return;
    if (!line_.empty()) print(0, line_.size()), to_.add(std::exchange(lines_, {}));
    line_.clear();
    ::close(from_);
    from_ = -1;
  }

 private:
  static constexpr std::size_t max_line = 1 << 16;

  void print(std::size_t begin, std::size_t end) {
    lines_ += prefix_;
    lines_.append(line_, begin, end - begin) += '\n';
  }

  int from_;
  line_output& to_;
  std::string prefix_, line_, lines_;  // line_: one that has not ended; lines_: complete ones
};

std::string prefix_of(const task& t, std::size_t width, const line_output& to) {
  std::string name = str_cat({t.id.job, " ", t.id.index});
  name.resize(std::max(width, name.size()), ' ');
  if (!to.is_terminal() || std::getenv("NO_COLOR")) return "[" + name + "] ";
  const int colour = 31 + (t.id.index + (t.id.job == "ps" ? 5 : 1)) % 6;
  return str_cat({"\x1b[", colour, "m[", name, "]\x1b[0m "});
}

class process {
 public:
  process(const task& t, const std::vector<task>& all, const settings& s, const std::string& secret, int restart,
          std::size_t width, line_output& output, line_output& errors)
      : task_(t), local_(t.host.empty()) {
    const pipe_ends in, out, err;
    std::vector<std::string> variables = s.env;
    for (const std::string& each :
         {"TF_CONFIG=" + tf_config(all, t), "WEFT_SECRET=" + secret, str_cat({"WEFT_RESTART=", restart})})
      variables.push_back(each);
    // All that allocates comes before the fork.
    std::vector<std::string> words = s.program;
    if (!local_) {
      words = s.ssh;
      words.push_back(t.host);
      words.push_back("exec sh -c " + quoted(remote_script(s)));  // whatever shell the user has there
    }
    std::vector<char*> arguments, environment;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::vector<std::string> own;
    for (char** each = environ; *each; ++each) own.emplace_back(*each);
    if (local_) {
      for (const std::string& each : variables) {
        std::erase_if(own, [&](const std::string& old) { return old.starts_with(each.substr(0, each.find('=') + 1)); });
        own.push_back(each);
      }
    }
    for (std::string& each : own) environment.push_back(each.data());
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    id_ = ::fork();
    if (id_ < 0) fail_by_system("cannot start a process");
    if (id_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() != parent) ::_exit(1);
      sigset_t none;
      ::sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::signal(SIGPIPE, SIG_DFL);
      const int input = local_ ? ::open("/dev/null", O_RDONLY) : in.read;
      ::dup2(input, STDIN_FILENO), ::dup2(out.write, STDOUT_FILENO), ::dup2(err.write, STDERR_FILENO);
      environ = environment.data();
      ::execvp(arguments[0], arguments.data());
      const char* const why = std::strerror(errno);
      static_cast<void>(!::write(STDERR_FILENO, arguments[0], std::strlen(arguments[0])));
      static_cast<void>(!::write(STDERR_FILENO, ": ", 2));
      static_cast<void>(!::write(STDERR_FILENO, why, std::strlen(why)));
      ::_exit(127);
    }
    ::setpgid(id_, id_);
    ::close(in.read), ::close(out.write), ::close(err.write);
    output_.emplace_back(out.read, output, prefix_of(t, width, output));
    output_.emplace_back(err.read, errors, prefix_of(t, width, errors));
    input_ = in.write;
    ::fcntl(input_, F_SETFL, O_NONBLOCK);
    if (local_) {
      close_input();
      return;
    }
    std::string said;
    for (const std::string& each : variables) said += each + "\n";
    say(said + "\n");
  }
  process(const process&) = delete;
  ~process() {
    close_input();
    if (!is_over()) ::kill(-id_, SIGKILL), ::waitpid(id_, nullptr, 0);
  }

  const task& what() const { return task_; }
  pid_t id() const { return id_; }
  bool is_over() const { return status_.has_value(); }
  void set_over(int status) {
    status_ = status;
    close_input();
    if (local_) ::kill(-id_, SIGKILL);  // what it has left behind
  }
  /// As a shell tells it.
  int exit_code() const { return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_); }
  std::string how() const {
    return WIFSIGNALED(*status_)
               ? str_cat({"was ended by signal ", WTERMSIG(*status_), " (", ::strsignal(WTERMSIG(*status_)), ")"})
               : str_cat({"ended with code ", WEXITSTATUS(*status_)});
  }

  void send(int number) {
    if (is_over()) return;
    if (local_) return static_cast<void>(::kill(-id_, number));
    say(str_cat({name_of(number), "\n"}));
    if (number == SIGKILL) close_input();
  }
  /// Where the other side does not answer any more.
  void kill_connection() {
    if (!is_over() && !local_) ::kill(-id_, SIGKILL);
  }

  std::list<line_printer>& output() { return output_; }
  /// Whether it is over, and all that it wrote is printed.
  bool is_read() const {
    return is_over() && std::all_of(output_.begin(), output_.end(),
                                    [](const line_printer& lines) { return lines.descriptor() < 0; });
  }

  /// Where what was said has not been taken yet; -1 where nothing waits.
  int hears_at() const { return unsaid_.empty() ? -1 : input_; }
  /// Says what the other side takes at once: one that hangs, ssh to a host that is gone, holds up nothing.
  void advance() {
    while (!unsaid_.empty()) {
      const ssize_t size = ::write(input_, unsaid_.data(), unsaid_.size());
      if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
      if (size < 0) return unsaid_.clear();  // it is gone
      unsaid_.erase(0, static_cast<std::size_t>(size));
    }
  }

 private:
  static const char* name_of(int number) {
    switch (number) {
      case SIGINT:
        return "INT";
      case SIGHUP:
        return "HUP";
      case SIGUSR1:
        return "USR1";
      case SIGUSR2:
        return "USR2";
      case SIGKILL:
        return "KILL";
      default:
        return "TERM";
    }
  }
  void say(const std::string& text) {
    if (input_ < 0) return;
    unsaid_ += text;
    advance();
  }
  void close_input() {
    if (input_ >= 0) ::close(input_);
    input_ = -1;
    unsaid_.clear();
  }

  const task& task_;
  bool local_;
  pid_t id_ = -1;
  int input_ = -1;
  std::string unsaid_;
  std::optional<int> status_;
  std::list<line_printer> output_;
};

// ---- a run ----

/// The signals that this process takes one by one.
class signals {
 public:
  signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);  // where the process that started this one ignores it, none could be waited for
    descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor_ < 0) fail_by_system("cannot wait for signals");
  }
  int descriptor() const { return descriptor_; }
  /// 0 where there is none.
  int next() const {
    signalfd_siginfo info;
    return ::read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int descriptor_ = -1;
};

/// How often a task was started, and when it is to be started next.
struct attempts {
  int restarts = 0;
  std::chrono::seconds wait{0};  // before the last restart
  steady_clock::time_point started{};
  std::optional<steady_clock::time_point> again_at{};
  int failure = 0;  // the exit code of the last one that failed
  bool done = false;

  /// The task has failed. Returns the wait until it is started again.
  std::chrono::seconds wait_again(steady_clock::time_point now) {
    constexpr std::chrono::seconds first{1}, longest{30}, well{60};
    wait = wait.count() == 0 || now - started >= well ? first : std::min(2 * wait, longest);
    again_at = now + wait;
    return wait;
  }
};

std::string in_seconds(steady_clock::duration time) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

struct outcome {
  int code = 0;         // of the first failure
  int interrupted = 0;  // the signal that ended it
};

outcome run(const settings& s, const std::vector<task>& tasks, const std::string& secret, int restart,
            const signals& own, line_output& output, line_output& errors) {
  std::size_t width = 0;
  for (const task& t : tasks) width = std::max(width, str_cat({t.id.job, " ", t.id.index}).size());
  std::list<process> processes;  // a task that is started again has several, and one that is not over
  std::vector<attempts> all(tasks.size());
  const auto place_of = [&](const task& t) { return static_cast<std::size_t>(&t - tasks.data()); };
  const auto start = [&](const task& t) {
    attempts& a = all[place_of(t)];
    a.started = steady_clock::now();
    processes.emplace_back(t, tasks, s, secret, restart + a.restarts, width, output, errors);
  };
  for (const task& t : tasks) start(t);
  outcome came;
  std::optional<steady_clock::time_point> kill_at, give_up_at;
  const auto end_all = [&](int number) {
    for (attempts& each : all) each.again_at.reset();
    for (process& each : processes) each.send(number);
    if (!kill_at)
      kill_at = steady_clock::now() +
                std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(s.grace));
  };
  const auto fail_for_good = [&](const task& t, int code, const std::string& how, const char* why) {
    came.code = code;
    const bool others = std::any_of(processes.begin(), processes.end(), [](const process& p) { return !p.is_over(); });
    errors.add(str_cat({"weft_launch: ", to_string(t.id), " ", how, why, others ? "; ending the others" : "", "\n"}));
    end_all(SIGTERM);
  };
  // A server that starts when all workers have ended would wait for them in vain, and so would a worker that starts
  // when all other tasks have. Returns the reason, or null.
  const auto why_not_again = [&](const task& t) -> const char* {
    const bool is_server = t.id.job == "ps";
    const auto is_done = [&](const task& u) {
      return &u == &t || (is_server && u.id.job == "ps") || all[place_of(u)].done;
    };
    if (tasks.size() == 1 || !std::all_of(tasks.begin(), tasks.end(), is_done)) return nullptr;
    return is_server ? "; all workers have ended, so it is not started again"
                     : "; all other tasks have ended, so it is not started again";
  };
  const auto take_failure = [&](const process& p) {
    attempts& a = all[place_of(p.what())];
    a.failure = p.exit_code();
    if (s.task_restarts == 0) return fail_for_good(p.what(), p.exit_code(), p.how(), "");
    const auto now = steady_clock::now();
    const std::string how = str_cat({p.how(), " after ", in_seconds(now - a.started)});
    if (const char* const why = why_not_again(p.what())) return fail_for_good(p.what(), p.exit_code(), how, why);
    if (a.restarts == s.task_restarts) {
      const std::string why = str_cat({"; --restart_task ", s.task_restarts, " does not start it again"});
      return fail_for_good(p.what(), p.exit_code(), how, why.c_str());
    }
    const auto wait = a.wait_again(now);
    errors.add(str_cat({"weft_launch: ", to_string(p.what().id), " ", how, "; starting it again in ", wait.count(),
                        " s (", a.restarts + 1, " of ", s.task_restarts, ")\n"}));
  };
  const auto tell_restarts = [&] {
    for (const task& t : tasks)
      if (const int times = all[place_of(t)].restarts; times > 0)
        errors.add(str_cat(
            {"weft_launch: ", to_string(t.id), " was started again ", times, times == 1 ? " time\n" : " times\n"}));
  };
  std::optional<steady_clock::time_point> over_since, idle_since;
  for (;;) {
    std::vector<pollfd> items{{own.descriptor(), POLLIN, 0}};
    std::vector<line_printer*> printers;
    bool over = true, open = false;
    std::optional<steady_clock::time_point> next_start;
    for (const attempts& each : all)
      if (each.again_at && (!next_start || *each.again_at < *next_start)) next_start = each.again_at;
    if (next_start) over = false;
    for (process& each : processes) {
      over = over && each.is_over();
      for (line_printer& lines : each.output()) {
        open = open || lines.descriptor() >= 0;
        if (lines.descriptor() < 0 || !lines.to().is_idle()) continue;
        items.push_back({lines.descriptor(), POLLIN, 0});
        printers.push_back(&lines);
      }
    }
    for (const process& each : processes)
      if (each.hears_at() >= 0) items.push_back({each.hears_at(), POLLOUT, 0});
    for (const line_output* each : {&output, &errors})
      if (!each->is_idle()) items.push_back({each->descriptor(), POLLOUT, 0});
    if (over) {
      const auto now = steady_clock::now();
      const bool idle = output.is_idle() && errors.is_idle();
      if (!over_since) over_since = now, tell_restarts();
      if (!idle || !idle_since) idle_since = now;
      // Whatever still holds the pipes then is no task; and nobody reads what is still to be written.
      if (idle && (!open || now >= *idle_since + std::chrono::milliseconds(300))) return came;
      if (came.interrupted && now >= *over_since + std::chrono::seconds(1)) return came;
    }
    int patience = over || kill_at ? 20 : 1000;
    if (next_start)
      patience = static_cast<int>(std::clamp<std::int64_t>(
          std::chrono::ceil<std::chrono::milliseconds>(*next_start - steady_clock::now()).count(), 0, patience));
    ::poll(items.data(), items.size(), patience);
    for (std::size_t i = 0; i < printers.size(); ++i)
      if (items[i + 1].revents) printers[i]->take();
    for (process& each : processes) each.advance();
    output.advance();
    errors.advance();
    while (const int number = own.next()) {
      if (number == SIGUSR1 || number == SIGUSR2) {
        for (process& each : processes) each.send(number);
      } else if (number != SIGCHLD) {
        if (came.interrupted) kill_at = steady_clock::now();  // asked twice
        came.interrupted = number;
        end_all(number);
      }
    }
    int status = 0;
    for (pid_t id; (id = ::waitpid(-1, &status, WNOHANG)) > 0;)
      for (process& each : processes) {
        if (each.id() != id || each.is_over()) continue;  // the system gives numbers out again
        each.set_over(status);
        if (each.exit_code() == 0) all[place_of(each.what())].done = true;
        if (each.exit_code() == 0 || came.code || came.interrupted) continue;
        take_failure(each);
      }
    const auto now = steady_clock::now();
    for (const task& t : tasks) {
      attempts& a = all[place_of(t)];
      if (!a.again_at || now < *a.again_at) continue;
      a.again_at.reset();
      if (const char* const why = why_not_again(t)) {
        fail_for_good(t, a.failure, "has failed", why);
        continue;
      }
      processes.remove_if([&](process& p) { return &p.what() == &t && p.is_read(); });
      ++a.restarts;
      start(t);
    }
    if (kill_at && now >= *kill_at && !give_up_at) {
      for (process& each : processes) each.send(SIGKILL);
      give_up_at = now + std::chrono::seconds(3);
    }
    if (give_up_at && now >= *give_up_at)
      for (process& each : processes) each.kill_connection();
  }
}

std::string secret_of_run() {
  cluster_secret::from_environment();  // throws for a secret that tasks would reject
  if (const char* const given = std::getenv("WEFT_SECRET"); given && *given) {
    if (std::strchr(given, '\n')) fail({"WEFT_SECRET must be one line"});
    return given;
  }
  if (const char* const file = std::getenv("WEFT_SECRET_FILE"); file && *file) {
    std::string line;
    if (!std::getline(std::ifstream(file), line)) fail({"WEFT_SECRET_FILE: ", file, " cannot be read"});
    return line;
  }
  std::array<std::byte, 32> random;
  fill_random(random);
  return weft::detail::hexadecimal(random);
}

}  // namespace

int main(int argc, char** argv) try {
  const auto s = read_command_line(argc, argv);
  if (!s) return 0;
  const signals own;
  held_ports ports;
  const std::vector<task> tasks = place_tasks(*s, ports);
  const std::string secret = secret_of_run();
  line_output output(STDOUT_FILENO), errors(STDERR_FILENO);
  for (int restart = 0;; ++restart) {
    const outcome came = run(*s, tasks, secret, restart, own, output, errors);
    if (came.interrupted) return 128 + came.interrupted;
    if (came.code == 0 || restart == s->restarts) return came.code;
    errors.add(str_cat({"weft_launch: starting all tasks again (", restart + 1, " of ", s->restarts, ")\n"}));
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 2;
}
