# SPDX-License-Identifier: BSL-1.0
"""Machines of a network of their own, for tests of programs that talk to other hosts: each is a process of this machine
with namespaces for its network, its name and its mounts. All reach each other, by their names too, over virtual interfaces
that meet at a switch, and nothing else; a cable can be pulled out. They are root's.
"""
import os
import shutil
import subprocess

needed = ("ip", "nsenter", "unshare", "setpriv")


def why_not():
    """Why there can be no machines here; nothing where there can."""
    missing = [each for each in needed if not shutil.which(each)]
    if os.geteuid() != 0:
        return "network namespaces are root's"
    return f"there is no {' and no '.join(missing)}" if missing else ""


class machines:
    """`network`: the first three numbers of their addresses, the test's own; machine 1 has .1. `joined`: this machine is at
    the switch too, as .254. `folder`: becomes `folder`/NAME on each machine, where it is its home. OSError where the system
    has no namespaces."""

    def __init__(self, names, network, folder, joined=False):
        self.names, self.network, self.folder, self.keepers = list(names), network, folder, {}
        self.bridge = f"weft{os.getpid()}" if joined else "switch"
        with open("/etc/hosts") as known, open(f"{folder}/hosts", "w") as hosts:
            hosts.write("".join(line for line in known if not set(line.split()[1:]) & set(names)))
            hosts.write("".join(f"{self.address(name)} {name}\n" for name in names))
        try:
            if not joined:
                self.keep("switch", "true")
            at_switch = self.enter("switch") if not joined else []
            self.check(*at_switch, "ip", "link", "add", self.bridge, "type", "bridge")
            if joined:
                self.check("ip", "address", "add", f"{network}.254/24", "dev", self.bridge)
            self.check(*at_switch, "ip", "link", "set", self.bridge, "up")
            for i, name in enumerate(names, 1):
                home = f"{folder}/{name}"
                os.makedirs(home, exist_ok=True)
                os.makedirs(f"{folder}/home", exist_ok=True)
                self.keep(name, f"hostname {name} && mount --bind {folder}/hosts /etc/hosts && "
                                f"mount --bind {home} {folder}/home && ip link set lo up")
                port = self.port(name)
                self.check(*at_switch, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
                           str(self.keepers[name].pid))
                self.check(*at_switch, "ip", "link", "set", port, "master", self.bridge, "up")
                self.check(*self.enter(name), "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
                subprocess.run([*self.enter(name), "ip", "address", "add", f"fd77::{i}/64", "dev", "eth0", "nodad"],
                               capture_output=True)  # where there is IPv6
                self.check(*self.enter(name), "ip", "link", "set", "eth0", "up")
        except OSError:
            self.close()
            raise

    def check(self, *command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def keep(self, name, prepare):
        """The process that a machine is, and that ends with this one."""
        keeper = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--mount", "sh", "-c",
                                   f"{prepare} && echo ready && exec sleep infinity"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.keepers[name] = keeper
        if keeper.stdout.readline() != "ready\n":
            keeper.kill()
            raise OSError(f"no namespaces: {keeper.communicate()[1].strip()}")

    def address(self, name):
        return f"{self.network}.{self.names.index(name) + 1}"

    def port(self, name):
        return f"{self.bridge}{self.names.index(name) + 1}"

    def enter(self, name):
        """What stands before a command that is to run there."""
        return ["nsenter", f"--target={self.keepers[name].pid}", "--net", "--uts", "--mount"]

    def has_ipv6(self):
        return "fd77::1" in self.check(*self.enter(self.names[0]), "ip", "-6", "address", "show", "dev", "eth0")

    def received(self, name):
        """Bytes that have come to the machine."""
        with open(f"/proc/{self.keepers[name].pid}/net/dev") as lines:
            return next(int(line.split()[1]) for line in lines if line.strip().startswith("eth0:"))

    def plug(self, name, there):
        """Puts the cable in, or pulls it out."""
        self.at_switch("ip", "link", "set", self.port(name), "up" if there else "down")

    def pass_on(self, name, passes):
        """Has the switch pass on the machine's frames, or drop them: unlike without a cable, its own interface stays up, as
        where a link fails behind the next switch."""
        self.at_switch("ip", "link", "set", self.port(name), *(["master", self.bridge] if passes else ["nomaster"]))

    def at_switch(self, *command):
        self.check(*(self.enter("switch") if "switch" in self.keepers else []), *command)

    def close(self):
        for each in self.keepers.values():
            each.kill()
            each.wait()
        if "switch" not in self.keepers:
            subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
