"""A real Slurm of one node, started and stopped by the tests that use it."""

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "setpriv")
# Not only SLURM_CONF: the executor's job step drops all SLURM_ variables before it calls srun.
SYSTEM_CONFIGURATION = Path("/etc/slurm/slurm.conf")
PREFIX = "stcl-slurm-"  # of the folders

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
# All ports on loopback
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
# No cgroups: they are not ours to change
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=2,batch_sched_delay=1
MailProg=/bin/true
# Seconds between the signal that asks a job to end and the one that makes it
KillWait=10
# Finished jobs stay visible to squeue and scontrol
MinJobAge=86400
# A request that cannot be met is refused, not left waiting
EnforcePartLimits=ALL
# The node may promise more than the machine has
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 Gres=gpu:3
PartitionName=cpu Nodes={host} Default=YES
PartitionName=gpu Nodes={host}
"""
# Any character devices do as GPUs: Slurm counts them and sets CUDA_VISIBLE_DEVICES.
GPUS = "AutoDetect=off\nNodeName={host} Name=gpu File=/dev/null,/dev/zero,/dev/full\n"


def obstacle() -> str | None:
    """Why no Slurm can be started here, if so."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)} missing); as root: tests/slurm/install.sh"
    if os.getuid() != 0:
        return "starting Slurm needs root"
    try:
        address = socket.gethostbyname(_host())
    except OSError:
        address = "nothing"
    if not address.startswith("127."):
        return f"the host name means {address}, not loopback: the daemons would listen on the network"
    if os.path.lexists(SYSTEM_CONFIGURATION) and not _left_by_a_dead_test():
        return f"{SYSTEM_CONFIGURATION} exists: a Slurm runs here, or another test of this kind"
    return None


class Cluster:
    """Partitions cpu and gpu on this machine, with three GPUs that are only names. Everything is kept in one folder.

    `with Cluster(): …`
    """

    def __init__(self) -> None:
        # Not a test's own temporary folder: the path of a socket is short, and munged wants it open to all.
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        self.folder.chmod(0o755)
        self.daemons: list[subprocess.Popen] = []

    def __enter__(self) -> "Cluster":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Cancel what runs, end the daemons, leave no trace."""
        running = slurm("squeue", "--noheader", "--format=%A").split()
        if running:
            slurm("scancel", *running)
            deadline = time.monotonic() + 30
            while slurm("squeue", "--noheader").strip() and time.monotonic() < deadline:
                time.sleep(0.2)
        self._stop()

    def _start(self) -> None:
        folder, host = self.folder, _host()
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key, configuration = folder / "munge.key", folder / "slurm.conf"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        (folder / "gres.conf").write_text(GPUS.format(host=host))
        ports = dict(zip(("controller_port", "node_port"), _free_ports(2), strict=True))
        configuration.write_text(CONFIGURATION.format(folder=folder, host=host, **ports))
        self.lock = configuration.open()  # held as long as this object lives
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        if _left_by_a_dead_test():
            SYSTEM_CONFIGURATION.unlink()
        SYSTEM_CONFIGURATION.parent.mkdir(exist_ok=True)
        SYSTEM_CONFIGURATION.symlink_to(configuration)

        files = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munged.pid"}
        files |= {"seed-file": folder / "munge.seed", "log-file": folder / "munge.log"}
        self._daemon("munged", "--foreground", *(f"--{name}={path}" for name, path in files.items()))
        self._wait(lambda: files["socket"].exists(), "munged")
        for name in ("slurmctld", "slurmd"):
            self._daemon(name, "-D", "-f", str(configuration))
        self._wait(lambda: slurm("sinfo", "--noheader", "--format=%T").strip() == "idle", "slurmd")

    def _daemon(self, *command: str) -> None:
        """Start in the foreground, to be ended by its pid; it ends also if the test is killed."""
        with (self.folder / f"{command[0]}.log").open("ab") as log:
            command = ("setpriv", "--pdeathsig", "TERM", *command)
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            dead = [daemon.args for daemon in self.daemons if daemon.poll() is not None]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"{what} is not ready; ended: {dead}\n{logs}")
            time.sleep(0.2)

    def _stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        if SYSTEM_CONFIGURATION.is_symlink() and SYSTEM_CONFIGURATION.readlink().parent == self.folder:
            SYSTEM_CONFIGURATION.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def slurm(*command: str) -> str:
    """What a Slurm command prints; nothing if it fails."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def jobs() -> list[dict[str, str]]:
    """Every job since the start, as `scontrol show job` describes it."""
    lines = slurm("scontrol", "--oneliner", "show", "jobs").splitlines()
    return [dict(pair.split("=", 1) for pair in line.split() if "=" in pair) for line in lines if "JobId=" in line]


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _left_by_a_dead_test() -> bool:
    """Whether the system's configuration is a link of ours whose test has ended: a living one holds a lock on it."""
    if not SYSTEM_CONFIGURATION.is_symlink() or not SYSTEM_CONFIGURATION.readlink().parent.name.startswith(PREFIX):
        return False
    if not SYSTEM_CONFIGURATION.exists():
        return True
    with SYSTEM_CONFIGURATION.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
