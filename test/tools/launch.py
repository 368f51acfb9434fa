# SPDX-License-Identifier: BSL-1.0
"""Runs weft_launch as a user does: programs that end well, fail, are killed or hang; on this machine, and on others by a
stand-in for ssh that runs its command here.

usage: launch.py WEFT_LAUNCH
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

launch = sys.argv[1]
temporary = tempfile.TemporaryDirectory()
folder = pathlib.Path(temporary.name)
faults = []
# In the command line of every task, to find those that are left.
mark = f"mark-{os.getpid()}"
environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "TF_CONFIG"))}


def check(holds, words):
    if not holds:
        faults.append(words)


def command(*options, shell, n=3):
    return [launch, "-n", str(n), *options, "--", "sh", "-c", shell, mark]


def run(*options, shell, n=3, code=0, seconds=30, **more):
    start = time.monotonic()
    done = subprocess.run(command(*options, shell=shell, n=n), capture_output=True, text=True, timeout=60,
                          env={**environment, **more})
    took = time.monotonic() - start
    check(done.returncode == code, f"{options} {shell}: code {done.returncode} in place of {code}: {done.stdout}{done.stderr}")
    check(took < seconds, f"{options} {shell}: took {took:.1f} s")
    still = left()
    check(not still, f"{options} {shell}: has left {still}")
    return done


def processes():
    for each in pathlib.Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                yield int(each.name), (each / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                pass


def left(seconds=20):
    """Tasks that are still there after a while; they are killed then."""
    until = time.monotonic() + seconds
    while True:
        found = [(number, line) for number, line in processes() if mark in line and number != os.getpid()]
        if not found:
            return found
        if time.monotonic() > until:
            for number, _ in found:
                os.kill(number, signal.SIGKILL)
            return found
        time.sleep(0.02)


def start(*options, shell, n=3, ready=None):
    """The launcher, once each task has said "ready"."""
    started = subprocess.Popen(command(*options, shell=shell, n=n), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment)
    for _ in range(n if ready is None else ready):
        line = started.stdout.readline()
        check("ready" in line, f"{shell}: says {line!r}")
    return started


def finish(started, code, what):
    try:
        out, err = started.communicate(timeout=20)
        check(started.returncode == code, f"{what}: code {started.returncode} in place of {code}: {out}{err}")
    except subprocess.TimeoutExpired:
        started.kill()
        left(0)
        out, err = started.communicate()
        faults.append(f"{what}: does not end: {out}{err}")
    still = left()
    check(not still, f"{what}: has left {still}")
    return out + err


# ---- who is who, and whose line it is ----

done = run("--ps", "1", shell='echo "$TF_CONFIG"; echo "to the other" >&2; printf "no end"')
told = {}
for line in done.stdout.splitlines():
    match = re.fullmatch(r"\[(ps 0    |worker [01])\] (.*)", line)
    check(match, f"a line without a name: {line!r}")
    if match and match[2] != "no end":
        told[match[1].strip()] = json.loads(match[2])
check(sorted(told) == ["ps 0", "worker 0", "worker 1"], f"not all have spoken: {done.stdout}")
for name, config in told.items():
    check(f"{config['task']['type']} {config['task']['index']}" == name, f"{name} is told {config}")
    check(config["cluster"] == told["ps 0"]["cluster"], f"{name} is told of another cluster")
    check([len(config["cluster"][job]) for job in ("ps", "worker")] == [1, 2], f"{name} is told {config}")
    ports = sum(config["cluster"].values(), [])
    check(len(set(ports)) == 3 and all(p.startswith("127.0.0.1:") for p in ports), f"ports: {ports}")
check(done.stdout.count("no end") == 3, f"the end of the output is missing: {done.stdout}")
check(sorted(done.stderr.splitlines()) == [f"[{n}] to the other" for n in ("ps 0    ", "worker 0", "worker 1")], done.stderr)
check("\x1b" not in done.stdout, "colours in a pipe")

done = run(shell='for i in $(seq 300); do echo "line $i of one task, which is whole"; done; head -c 200000 /dev/zero | tr "\\0" x')
whole = [line for line in done.stdout.splitlines() if "line" in line]
check(len(whole) == 900 and all(re.fullmatch(r"\[worker \d\] line \d+ of one task, which is whole", w) for w in whole),
      "lines are torn")
check(done.stdout.count("x") == 600_000, "a long line is not whole")

# ---- the ends of tasks ----

is_task = 'is_task() { case "$TF_CONFIG" in *"\\"worker\\", \\"index\\": $1}"*) true;; *) false;; esac; }; '
done = run(shell=is_task + "if is_task 1; then sleep 0.2; exit 7; fi; sleep 60", code=7, seconds=4)
check("weft_launch: /job:worker/task:1 ended with code 7; ending the others" in done.stderr, done.stderr)
done = run(shell=is_task + "if is_task 2; then kill -9 $$; fi; sleep 60", code=137, seconds=4)
check("/job:worker/task:2 was ended by signal 9 (Killed)" in done.stderr, done.stderr)
# One that heeds no SIGTERM, and one that leaves a process behind.
run("--grace", "0.3", shell=is_task + "if is_task 0; then sleep 0.5; exit 1; fi; trap '' TERM; while :; do sleep 1; done", code=1,
    seconds=5)
run(shell=f"sh -c 'sleep 60; : {mark}' & exit 0")
# The first failure counts, not what SIGTERM makes of the others.
run(shell=is_task + "trap 'exit 9' TERM; if is_task 1; then sleep 0.3; exit 5; fi; while :; do sleep 0.05; done", code=5)
done = subprocess.run([launch, "-n", "2", "--", "/no/such/program"], capture_output=True, text=True, timeout=20)
check(done.returncode == 127 and "/no/such/program: No such file" in done.stderr, f"no program: {done}")

# ---- signals ----

for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGHUP, "HUP")):
    started = start("--restart", "3", shell=f"trap 'echo heard {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done")
    started.send_signal(number)
    said = finish(started, 128 + number, f"SIG{name}")
    check(said.count(f"heard {name}") == 3, f"SIG{name} is not passed on: {said}")
    check("again" not in said, f"SIG{name}: starts again")
started = start("--grace", "0.3", shell="trap '' TERM; echo ready; while :; do sleep 1; done")
started.terminate()
finish(started, 143, "SIGTERM to tasks that do not heed it")
started = start("--grace", "60", shell="trap '' TERM; echo ready; while :; do sleep 1; done")
started.terminate()
time.sleep(0.3)
started.terminate()
finish(started, 143, "SIGTERM twice")
started = start(shell="trap 'echo told' USR1; echo ready; for i in $(seq 20); do sleep 0.05; done")
started.send_signal(signal.SIGUSR1)
check(finish(started, 0, "SIGUSR1").count("told") == 3, "SIGUSR1 is not passed on")
started = start(shell="echo ready; while :; do sleep 0.05; done")
started.kill()
finish(started, -9, "SIGKILL to the launcher")

started = subprocess.Popen(command(shell="exit 3"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
finish(started, 3, "SIGCHLD is ignored by whoever starts the launcher")
done = run(shell="grep SigIgn: /proc/self/status")
check(all(int(line.split()[-1], 16) >> (signal.SIGPIPE - 1) & 1 == 0 for line in done.stdout.splitlines()),
      f"tasks ignore SIGPIPE: {done.stdout}")

# ---- output that nobody reads ----

started = start("--grace", "0.3", shell="trap '' TERM; while :; do echo a line of many; done", ready=0)
time.sleep(0.5)
started.terminate()
try:
    check(started.wait(timeout=20) == 143, f"output that nobody reads: code {started.returncode}")
except subprocess.TimeoutExpired:
    faults.append("output that nobody reads: SIGTERM does not end the launcher")
    started.kill()
still = left()
check(not still, f"output that nobody reads: has left {still}")
started.communicate()
started = start(shell="seq 50000", ready=0)
time.sleep(1)
said = finish(started, 0, "output that is read late")
check(sum(line.endswith("] 50000") for line in said.splitlines()) == 3 and len(said.splitlines()) == 150_000,
      f"output that is read late: {len(said.splitlines())} lines")

# ---- again ----

count = folder / "count"
attempt = is_task + f'if is_task 0; then echo x >> {count}; [ $(wc -l < {count}) -lt 3 ] && exit 4; fi; sleep 0.5; echo "attempt $WEFT_RESTART"'
done = run("--restart", "3", shell=attempt)
check(done.stdout.count("attempt 2") == 3 and "starting all tasks again (2 of 3)" in done.stderr, f"again: {done}")
count.unlink()
done = run("--restart", "1", shell=attempt, code=4)
check("again (1 of 1)" in done.stderr, f"again: {done}")

# ---- one task again ----

# Each start of a task adds a line to its file.
starts = folder / "starts"
starts.mkdir()
counted = (is_task + 'for me in 0 1 2; do is_task $me && break; done; '
           f'echo x >> {starts}/$me; n=$(($(wc -l < {starts}/$me))); ')


def clear():
    for each in starts.iterdir():
        each.unlink()


def count_of(task):
    return len((starts / str(task)).read_text())//2 if (starts / str(task)).exists() else 0


def restarted(*options, shell, code=0, seconds=30):
    clear()
    began = time.monotonic()
    done = run("--restart_task", *options, shell=counted + shell, code=code, seconds=seconds)
    return done, time.monotonic() - began


done, _ = restarted("3", shell='if [ $me$n = 11 ]; then kill -9 $$; fi; sleep 4; '
                    'echo "$me $n $WEFT_RESTART $TF_CONFIG"')
lines = [line.split("] ", 1)[1].split(" ", 3) for line in done.stdout.splitlines()]
check(sorted(line[:3] for line in lines) == [["0", "1", "0"], ["1", "2", "1"], ["2", "1", "0"]], f"one again: {done}")
check(len({json.dumps(json.loads(line[3])["cluster"]) for line in lines}) == 1, f"the address of one has changed: {done}")
check(re.search(r"weft_launch: /job:worker/task:1 was ended by signal 9 \(Killed\) after \d\.\d s; starting it again in 1 s "
                r"\(1 of 3\)\n", done.stderr)
      and done.stderr.endswith("weft_launch: /job:worker/task:1 was started again 1 time\n"), f"one again: {done.stderr}")
# A status that is not 0; what a failed task wrote last is not lost, nor what it left behind kept.
done, took = restarted("2", shell=f"if [ $me = 2 ] && [ $n -lt 3 ]; then sh -c 'sleep 60; : {mark}' & printf 'last words'; exit 5; "
                       "fi; sleep 8")
check(done.stdout == "[worker 2] last words\n" * 2 and "again in 1 s (1 of 2)" in done.stderr
      and "again in 2 s (2 of 2)" in done.stderr and [count_of(i) for i in range(3)] == [1, 1, 3] and took > 3, f"twice: {done}")
# One that always fails ends the others, with its code.
done, took = restarted("2", shell="if [ $me = 0 ]; then exit 6; fi; sleep 60", code=6, seconds=8)
check("/job:worker/task:0 ended with code 6 after 0.0 s; --restart_task 2 does not start it again; ending the others"
      in done.stderr and [count_of(i) for i in range(3)] == [3, 1, 1] and took > 3, f"always: {done}")
# Each task has its own count.
done, _ = restarted("1", shell='if [ $n = 1 ]; then exit 3; fi; sleep 0.2')
check([count_of(i) for i in range(3)] == [2, 2, 2] and done.stderr.count("again in 1 s (1 of 1)") == 3, f"each: {done}")
# One that has ended well is done.
done, _ = restarted("1", shell='if [ $me = 0 ]; then exit 0; fi; [ $me$n = 11 ] && exit 1; sleep 4')
check([count_of(i) for i in range(3)] == [1, 2, 1], f"done: {done}")
# The last one would wait for the others: those that end before it fails, and those that end before it starts again.
for last in ("sleep 0.5; exit 7", "exit 7"):
    done, _ = restarted("9", shell=f"if [ $me = 1 ]; then {last}; fi; sleep 0.1", code=7, seconds=10)
    check([count_of(i) for i in range(3)] == [1, 1, 1]
          and "all other tasks have ended, so it is not started again" in done.stderr, f"the last one: {done}")
# A parameter server is of no use after its workers.
clear()
done = run("--restart_task", "3", "--ps", "1", shell=f'echo x >> {starts}/0; case "$TF_CONFIG" in *\'"type": "ps"\'*) sleep 1; exit 4;; esac',
           code=4, seconds=6)
check(count_of(0) == 3 and "all workers have ended, so it is not started again" in done.stderr, f"nobody to serve: {done}")

# SIGTERM in the wait before a restart ends all, and nothing is started then.
clear()
started = start("--restart_task", "9", shell=counted + "[ $me$n = 11 ] && exit 1; trap 'echo heard; exit 0' TERM; "
                "echo ready; while :; do sleep 0.05; done", ready=2)
while "starting it again" not in started.stderr.readline():
    pass
began = time.monotonic()
started.terminate()
said = finish(started, 143, "SIGTERM before a restart")
check(said.count("heard") == 2 and "was started again" not in said and count_of(1) == 1 and time.monotonic() - began < 1,
      f"SIGTERM before a restart: {said}")
# So it does after one, and with no task running.
clear()
started = start("--restart_task", "9", shell=counted + "[ $me$n = 11 ] && exit 1; trap 'echo heard; exit 0' TERM; "
                "echo ready; while :; do sleep 0.05; done", ready=3)
started.terminate()
said = finish(started, 143, "SIGTERM after a restart")
check(said.count("heard") == 3 and count_of(1) == 2, f"SIGTERM after a restart: {said}")
started = start("--restart_task", "9", shell="exit 1", n=1, ready=0)
started.stderr.readline()
started.send_signal(signal.SIGINT)
finish(started, 130, "SIGINT where no task runs")
# A port that was listened at is listened at again.
listen = folder / "listen.py"
listen.write_text(f"""import json, os, pathlib, signal, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
host, port = config["cluster"]["worker"][config["task"]["index"]].split(":")
s = socket.create_server((host, int(port)))
peer = socket.create_connection((host, int(port)))
s.accept()[0].send(b"x")  # a connection that is not read, so that it is reset
if os.environ["WEFT_RESTART"] == "0": os.kill(os.getpid(), signal.SIGKILL)
print("listens again")
""")
done = subprocess.run([launch, "-n", "2", "--restart_task", "1", "--", sys.executable, str(listen), mark], capture_output=True,
                      text=True, timeout=30, env=environment)
check(done.returncode == 0 and done.stdout.count("listens again") == 2, f"ports: {done}")

# ---- the secret, and other hosts ----

stand_in = folder / "ssh"
stand_in.write_text("""#!/bin/sh
# As sshd does it: the words become one command, of a shell that has nothing of the other side's environment.
[ "$1" = -x ] || exit 255
host=$2; shift 2
env -i PATH="$PATH" HOME="$HOME" STAND_IN_HOST="$host" sh -c "$*"
""")
stand_in.chmod(0o755)
# Names of this machine to the system, of which the launcher does not know that.
over_ssh = ("--ssh", f"{stand_in} -x", "--hosts", "127.1,127.2")

for options in ((), over_ssh):
    started = start(*options, shell='echo "ready $WEFT_SECRET"; while read line; do :; done; exec sleep 2', ready=0)
    lines = [started.stdout.readline() for _ in range(3)]
    secrets = {line.split()[-1] for line in lines}
    check(len(secrets) == 1 and len(min(secrets)) == 64, f"secrets: {lines}")
    seen = [line for _, line in processes() if min(secrets) in line]
    check(not seen, f"{options}: the secret is in a command line: {seen}")
    started.terminate()
    finish(started, 143, f"{options}: SIGTERM")
done = run(shell='echo "$WEFT_SECRET"', WEFT_SECRET="given by the user")
check(done.stdout.count("given by the user") == 3, f"a secret that was given: {done.stdout}")
with tempfile.TemporaryDirectory() as its_folder:
    path = os.path.join(its_folder, "secret")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("a secret in a file\nand what follows\n")
    done = run(shell='echo "$WEFT_SECRET"', WEFT_SECRET_FILE=path)
    check(done.stdout.count("a secret in a file") == 3, f"a file with a secret: {done.stdout}")
    os.chmod(path, 0o644)
    run(shell="exit 0", WEFT_SECRET_FILE=path, code=2)
for short in ("short", "short" + 11 * " "):
    run(shell="exit 0", WEFT_SECRET=short, code=2)


def make_secret(*words):
    return subprocess.run([launch, "--make_secret", *words], capture_output=True, text=True, timeout=30, env=environment)


secret_file = folder / "secret"
done = make_secret(str(secret_file))
check(done.returncode == 0 and re.fullmatch("[0-9a-f]{64}\n", secret_file.read_text())
      and secret_file.stat().st_mode & 0o7777 == 0o600, f"--make_secret: {done}, {secret_file.stat()}")
before = secret_file.read_text()
done = make_secret(str(secret_file))
check(done.returncode == 2 and "exists" in done.stderr and secret_file.read_text() == before, f"--make_secret again: {done}")
for wrong in ((), (str(folder / "other"), "-n", "2"), (str(folder / "other"), "--", "true"), (str(folder / "none" / "secret"),)):
    done = make_secret(*wrong)
    check(done.returncode == 2 and done.stderr.startswith("error: ") and not (folder / "other").exists(),
          f"--make_secret {wrong}: {done}")

quoting = """it's "so" $HOME `id` \\n"""
done = subprocess.run([launch, "-n", "2", *over_ssh, "--env", "A=1 2", "--env", "GIVEN", "--chdir", str(folder), "--", "printf",
                       "<%s>\\n", quoting, mark], capture_output=True, text=True, timeout=30, env={**environment, "GIVEN": "g"})
check(done.stdout.count(f"<{quoting}>") == 2, f"quoting: {done}")
done = run(*over_ssh, "--env", "A=1 2", "--env", "GIVEN", "--chdir", str(folder),
           shell='echo "$A $GIVEN $PWD $STAND_IN_HOST ${NOT_GIVEN-none}"', n=4, GIVEN="g h", NOT_GIVEN="x")
check(done.stdout.count(f"1 2 g h {folder} 127.1 none") == 2 and done.stdout.count("127.2 none") == 2, f"variables: {done}")
config = json.loads(run(*over_ssh, "--port", "2222", shell='echo "$TF_CONFIG"').stdout.splitlines()[0].split("] ", 1)[1])
check(config["cluster"] == {"worker": ["127.1:2222", "127.2:2222", "127.1:2223"]}, f"addresses: {config}")
done = run(*over_ssh, shell=is_task + "if is_task 1; then sleep 0.2; exit 7; fi; sleep 60", code=7, seconds=5)
run(*over_ssh, "--grace", "0.3", shell=is_task + "if is_task 1; then exit 7; fi; trap '' TERM; while :; do sleep 1; done", code=7,
    seconds=5)
started = start(*over_ssh, shell="trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
started.terminate()
check(finish(started, 143, "SIGTERM over ssh").count("told") == 3, "SIGTERM does not come to other hosts")
started = start(*over_ssh, "--grace", "15", shell="trap 'echo told; exit 0' INT; echo ready; while :; do sleep 0.05; done")
started.send_signal(signal.SIGINT)
check(finish(started, 130, "SIGINT over ssh").count("told") == 3, "SIGINT does not come to other hosts")
started = start(*over_ssh, shell="echo ready; while :; do sleep 0.05; done")
started.kill()
finish(started, -9, "SIGKILL to the launcher, with tasks on other hosts")
run(*over_ssh, "--chdir", "/no/such/folder", shell="exit 0", code=1)
run(*over_ssh, shell=f"sh -c 'sleep 60; : {mark}' & exit 0")
run(*over_ssh, shell=is_task + f"if is_task 1; then sleep 0.3; exit 7; fi; sh -c 'sleep 60; : {mark}'; :", code=7)
for how in ("kill -9 $$", "exit 7"):
    clear()
    done = run(*over_ssh, "--restart_task", "2", "--env", "A=1 2", shell=counted + f"if [ $me$n = 11 ]; then {how}; fi; sleep 4; "
               'echo "$me $n $WEFT_RESTART $A"')
    check(sorted(line.split("] ")[1] for line in done.stdout.splitlines()) == ["0 1 0 1 2", "1 2 1 1 2", "2 1 0 1 2"]
          and "starting it again in 1 s (1 of 2)" in done.stderr, f"one again over ssh, {how}: {done}")
clear()
started = start(*over_ssh, "--restart_task", "9", shell=counted + "[ $me$n = 11 ] && exit 1; trap 'echo heard; exit 0' TERM; "
                "echo ready; while :; do sleep 0.05; done", ready=2)
while "starting it again" not in started.stderr.readline():
    pass
started.terminate()
said = finish(started, 143, "SIGTERM before a restart over ssh")
check(said.count("heard") == 2 and count_of(1) == 1, f"SIGTERM before a restart over ssh: {said}")
# A connection that hangs takes no variables.
hanging = folder / "hanging"
hanging.write_text(f"#!/bin/sh\nexec 2>&-; sleep 60; : {mark}\n")
hanging.chmod(0o755)
started = subprocess.Popen([launch, "-n", "2", "--ssh", str(hanging), "--hosts", "127.1,127.2", "--grace", "0.3", "--env", "LONG", "--",
                            "true", mark], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env={**environment, "LONG": "x" * 100_000})
time.sleep(0.5)
started.terminate()
finish(started, 143, "ssh hangs")

# ---- what is wrong with a command line ----

done = subprocess.run([launch, "--version"], capture_output=True, text=True, timeout=20)
check(done.returncode == 0 and re.fullmatch(r"weft_launch \d+\.\d+\.\d+\n", done.stdout), f"--version: {done}")
manual = (pathlib.Path(__file__).parents[2] / "tools/man/weft_launch.1").read_text().replace("\\", "")
told = subprocess.run([launch, "--help"], capture_output=True, text=True).stdout
missing = set(re.findall(r"--\w+", told)) - set(re.findall(r"--\w+", manual))
check("--ssh" in told and not missing, f"the manual page has not {missing}")
for wrong, words in ((["-n", "0", "--", "true"], "-n must be from 1"), (["-n", "2"], "a program is required after --"),
                     (["-n", "2", "true"], "write -- before the program"),
                     (["-n", "2", "--ps", "2", "--", "true"], "--ps must be at least 0 and less than"),
                     (["-n", "2", "--port", "65535", "--", "true"], "--port must be at least 0"),
                     (["-n", "2", "--port", "2147483647", "--", "true"], "--port must be at least 0"),
                     (["-n", "2", "--hosts", "a b", "--", "true"], "is not host:port"),
                     (["-n", "2", "--env", "a-b", "--", "true"], "--env a-b is not NAME"),
                     (["-n", "2", "--grace", "-1", "--", "true"], "--grace must be"),
                     (["-n", "2", "--restart", "1", "--restart_task", "1", "--", "true"], "give only one of them"),
                     (["-n", "2", "--restart_task", "-1", "--", "true"], "--restart_task must not be negative"),
                     (["--", "true"], "'--tasks'"), (["-n", "2", "--nonsense", "--", "true"], "'--nonsense'")):
    done = subprocess.run([launch, *wrong], capture_output=True, text=True, timeout=20)
    check(done.returncode == 2 and done.stderr.startswith("error: ") and words in done.stderr, f"{wrong}: {done}")

print("\n".join(faults) or "weft_launch is as it should be")
sys.exit(1 if faults else 0)
