# SPDX-License-Identifier: BSL-1.0
"""Submits the job scripts of examples/jobs. Slurm's runs under a controller and the daemons of two nodes, all of them real
and this test's own, each node a network namespace; PBS's, of whose programs Debian has none, beside a node file and a pbsdsh
made here. Slurm's part needs root and Slurm's packages; skipped in words elsewhere.

usage: batch.py PROGRAM
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import machines

program = os.path.abspath(sys.argv[1])
jobs = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../examples/jobs"))
faults, daemons = [], []
quick = ["--threads", "1", "--train_steps", "30", "--batch_size", "20", "--progress", "none"]
temporary = tempfile.TemporaryDirectory(prefix="weft_batch_")
folder = temporary.name
os.chmod(folder, 0o755)
environment = {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "SLURM_", "PBS_"))}
environment |= {"HOME": folder, "WEFT_PROGRAM": program, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*command, seconds=60, **more):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment | more, cwd=folder)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, str(late.stdout), str(late.stderr) + f"\n(does not end in {seconds} s)")


def result_of(name, done):
    """Prints the result that a run has written; a fault where it has none."""
    try:
        with open(f"{folder}/{name}.json") as text:
            result = json.load(text)
        if done.returncode == 0:
            print(f"{name}: {result['workers']} workers, cost {result['final_cost']}")
            return
    except OSError:
        pass
    faults.append(f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}")


# ---- PBS ----

def pbs():
    tools = f"{folder}/pbs"
    os.mkdir(tools)
    with open(f"{tools}/pbsdsh", "w") as script:  # "-n 1 -- command": runs it as that of this line of the node file
        script.write('#!/bin/sh\n[ "$1" = -n ] && [ "$3" = -- ] || exit 2\nshift 3\nexec "$@"\n')
    os.chmod(f"{tools}/pbsdsh", 0o755)
    with open(f"{folder}/nodes", "w") as nodes:
        nodes.write("localhost\n" * 3)
    done = run("bash", f"{jobs}/pbs.sh", *quick, "--json", f"{folder}/pbs.json", PATH=f"{tools}:{environment['PATH']}",
               PBS_O_WORKDIR=folder, PBS_NODEFILE=f"{folder}/nodes", PBS_JOBID="17.here")
    if os.path.exists(f"{folder}/nodes.17.here"):
        faults.append("PBS: the copy of the node file is left")
    result_of("pbs", done)


# ---- Slurm ----

def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    return [each.getsockname()[1] for each in held]


def daemon(*command):
    log = open(f"{folder}/{os.path.basename(command[0])}{len(daemons)}.log", "w")
    daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))


def start_slurm():
    """A cluster of two nodes, n1 and n2, which its jobs know by these names."""
    host, ports = socket.gethostname(), free_ports(2)
    with open(f"{folder}/munge.key", "wb") as key:
        key.write(os.urandom(1024))
    os.chmod(f"{folder}/munge.key", 0o400)
    for name in ("state", "spool.n1", "spool.n2"):
        os.mkdir(f"{folder}/{name}")
    with open(f"{folder}/slurm.conf", "w") as text:
        text.write(f"""ClusterName=weft
SlurmctldHost={host}(10.78.0.254)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SwitchType=switch/none
KillWait=2
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeAddr=10.78.0.[1-2] CPUs=4
PartitionName=all Nodes=n1,n2 Default=YES State=UP
""")
    environment["SLURM_CONF"] = f"{folder}/slurm.conf"
    daemon("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
           f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed")
    daemon("slurmctld", "-D", "-i")
    for node in ("n1", "n2"):
        daemon(*net.enter(node), "slurmd", "-D", "-N", node, "-f", f"{folder}/slurm.conf")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        nodes = run("sinfo", "--noheader", "--format=%T %D", seconds=20).stdout.split()
        if nodes == ["idle", "2"]:
            return True
        if any(each.poll() is not None for each in daemons):
            break
        time.sleep(0.2)
    return False


def why_not():
    said = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".log"):
            with open(f"{folder}/{name}", errors="replace") as text:
                said.append(f"{name}: " + "".join(text.readlines()[-5:]))
    return "\n".join(said)


def submit(name, *flags):
    """Submits Slurm's script and waits for its end; sbatch --wait asks for it every few seconds only."""
    done = run("sbatch", "--parsable", "--nodes=2", "--ntasks=4", f"--output={folder}/{name}.out", f"{jobs}/slurm.sh", *quick,
               "--json", f"{folder}/{name}.json", *flags)
    deadline = time.monotonic() + 60
    while done.returncode == 0 and time.monotonic() < deadline:
        state = dict(each.split("=", 1) for each in run("scontrol", "show", "job", done.stdout.strip()).stdout.split()
                     if "=" in each)
        if state.get("JobState") not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            done.returncode = 0 if state.get("JobState") == "COMPLETED" else 1
            done.stdout += said_by(name)
            return done
        time.sleep(0.1)
    done.stderr += "(does not end)"
    done.returncode = 124
    return done


def said_by(name):
    with open(f"{folder}/{name}.out", errors="replace") as text:
        return text.read()


def state_of(job):
    return dict(each.split("=", 1) for each in run("scontrol", "show", "job", job).stdout.split() if "=" in each)


def await_that(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            faults.append(f"{what} has not come in {seconds} s")
            return False
        time.sleep(0.1)
    return True


def slurm_queues_again():
    """The script is told to end, as before the time limit: the tasks save a checkpoint, and the job goes on from it. Then a
    job is cancelled, which is not queued again."""
    def start(name):
        done = run("sbatch", "--parsable", "--nodes=2", "--ntasks=4", f"--output={folder}/{name}.out", f"{jobs}/slurm.sh",
                   "--threads", "1", "--batch_size", "20", "--progress", "none", "--train_steps", "4000", "--checkpoint_steps",
                   "50", "--json", f"{folder}/{name}.json", WEFT_CHECKPOINTS=f"{folder}/{name}.checkpoints")
        job = done.stdout.strip()
        await_that(f"{name}: a checkpoint", lambda: os.path.isdir(f"{folder}/{name}.checkpoints")
                   and any("50" in each for each in os.listdir(f"{folder}/{name}.checkpoints")))
        return job

    job = start("again")
    run("scancel", "--batch", "--signal=TERM", job)
    if await_that("a job that is queued again", lambda: state_of(job).get("Restarts") == "1"):
        # Slurm waits for two minutes before it starts such a job.
        await_that("the start of a job that is queued again",
                   lambda: run("scontrol", "update", f"jobid={job}", "StartTime=now")
                   and state_of(job).get("JobState") in ("RUNNING", "COMPLETED"))
        await_that("the end of a job that is queued again", lambda: state_of(job).get("JobState") == "COMPLETED", 120)
        said = said_by("again")
        if not all(words in said for words in ("received SIGTERM: the job is requeued", "continues from step ")):
            faults.append(f"Slurm, queued again: {said}")
        else:
            print("slurm: a job that was told to end went on from its checkpoint")
    job = start("cancelled")
    run("scancel", job)
    await_that("the end of a cancelled job", lambda: state_of(job).get("JobState") == "CANCELLED")
    time.sleep(2)
    if state_of(job).get("JobState") != "CANCELLED" or state_of(job).get("Restarts") != "0":
        faults.append(f"Slurm: a cancelled job is {state_of(job)}")


def slurm():
    result_of("slurm", submit("slurm"))
    slurm_queues_again()
    if run("stat", "--format=%a", f"{folder}/.config/weft/secret").stdout.strip() != "600":
        faults.append("Slurm: others can read the secret")
    # A task that fails ends the job, in time and in words.
    done = submit("wrong", "--hidden_units", "0")
    if done.returncode == 0 or "--hidden_units" not in said_by("wrong"):
        faults.append(f"Slurm, a wrong flag: {done.returncode}, {said_by('wrong')}")
    # Without the script, under MPI: no parameter server.
    if "mpi" in run(program, "--help").stdout.split("--strategy")[1].split("--")[0]:
        done = run("srun", "--mpi=pmix", "--nodes=1", "--ntasks=2", program, "--strategy", "mpi", *quick, "--json",
                   f"{folder}/srun_mpi.json")
        if done.returncode and "built without MPI" in done.stderr:
            print("srun --mpi: the program was built without MPI")
        else:
            result_of("srun_mpi", done)


net = None
try:
    pbs()
    missing = [each for each in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(each)]
    if machines.why_not() or missing:
        print(f"skipped: Slurm, {machines.why_not() or 'for there is no ' + ' and no '.join(missing)}")
    else:
        try:
            net = machines.machines(("n1", "n2"), "10.78.0", folder, joined=True)
        except OSError as problem:
            print(f"skipped: Slurm, for there are no network namespaces here ({problem})")
        else:
            if start_slurm():
                slurm()
            else:
                print(f"skipped: Slurm does not start here\n{why_not()}")
finally:
    for each in reversed(daemons):
        if each.poll() is None:
            each.send_signal(signal.SIGTERM)
    for each in reversed(daemons):
        try:
            each.wait(timeout=3)
        except subprocess.TimeoutExpired:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()
    if net:
        net.close()

print("\n".join(faults) or "the jobs have trained")
sys.exit(1 if faults else 0)
