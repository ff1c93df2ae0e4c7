/**
 * Runs a private Postfix with OpenDKIM for comparison: SMTP in, one RSA-2048 signature, SMTP out to the sink. It has
 * its own configuration, queue and data folders, and does not touch a Postfix that already runs on the machine. Its
 * queue is on the same disk as Letterhaus's database, with fsync as always.
 *
 * The settings are those that an operator would choose for speed on a dedicated machine. Each departure from the
 * defaults has its reason beside it. Only root can start Postfix's master.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { waitFor } from '../../test/support/wait.ts';
import { freePort } from './free-port.ts';
import { SENDER_DOMAIN } from './mail-text.ts';

const run = promisify(execFile);

/** Returns why Postfix cannot run on this machine, with a remedy; null: it can. */
export function whyNoPostfix(): string | null {
  const missing = ['postfix', 'opendkim'].filter((name) => programOf(name) === null);
  if (missing.length > 0) {
    return (
      `--postfix: ${missing.join(' and ')} not found; install both with ` +
      '`apt-get install --no-install-recommends postfix opendkim`.'
    );
  }
  if (process.getuid?.() !== 0) {
    return '--postfix: the Postfix master has to be started by root; run this as root.';
  }
  return null;
}

export class Postfix implements AsyncDisposable {
  readonly port: number;
  /** Process ids of the master and the milter. Their descendants do all the work. */
  readonly pids: { postfix: number; opendkim: number };
  readonly version: string;
  readonly #folder: string;
  readonly #milter: ChildProcess;

  static async start(sinkPort: number): Promise<Postfix> {
    const folder = await mkdtemp(join(tmpdir(), 'letterhaus-bench-postfix-'));
    await chmod(folder, 0o755); // Postfix's daemons are not root
    const port = await freePort();
    let milter: ChildProcess | undefined;
    try {
      milter = await startMilter(folder);
      const pid = await startMaster(folder, { port, sinkPort });
      const { stdout } = await run('postconf', ['-d', '-h', 'mail_version']);
      return new Postfix({ folder, port, milter, pid, version: stdout.trim() });
    } catch (error) {
      milter?.kill('SIGKILL');
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  constructor(parts: {
    folder: string;
    port: number;
    milter: ChildProcess;
    pid: number;
    version: string;
  }) {
    this.port = parts.port;
    this.version = parts.version;
    this.pids = { postfix: parts.pid, opendkim: parts.milter.pid ?? 0 };
    this.#folder = parts.folder;
    this.#milter = parts.milter;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run('postfix', ['-c', join(this.#folder, 'etc'), 'stop']);
    this.#milter.kill('SIGTERM');
    await waitFor(() => this.#milter.exitCode !== null || this.#milter.signalCode !== null, {
      what: 'opendkim to end',
    });
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function programOf(name: string): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path)) ?? null;
}

async function startMilter(folder: string): Promise<ChildProcess> {
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const [key, config, socket] = ['key.pem', 'opendkim.conf', 'milter.sock'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  await writeFile(key, privateKey, { mode: 0o600 });
  await writeFile(config, milterConfig(key, socket));
  const milter = spawn(programOf('opendkim') ?? 'opendkim', ['-f', '-x', config], {
    stdio: 'inherit',
  });
  await waitFor(() => existsSync(socket) || milter.exitCode !== null, { what: 'opendkim' });
  if (milter.exitCode !== null) throw new Error(`opendkim ended with ${milter.exitCode}`);
  return milter;
}

/**
 * Returns a configuration that makes one signature like Letterhaus's RSA signature, verifies and looks up nothing, and
 * does not log successes. RequireSafeKeys is off, because OpenDKIM would refuse any key below /tmp.
 */
function milterConfig(key: string, socket: string): string {
  return `Mode s
Domain ${SENDER_DOMAIN}
Selector bench
KeyFile ${key}
Socket local:${socket}
UMask 000
RequireSafeKeys no
Canonicalization relaxed/relaxed
SignatureAlgorithm rsa-sha256
OversignHeaders From
InternalHosts 127.0.0.1
Syslog yes
SyslogSuccess no
`;
}

async function startMaster(
  folder: string,
  ports: { port: number; sinkPort: number },
): Promise<number> {
  const config = join(folder, 'etc');
  await mkdir(config);
  await mkdir(join(folder, 'data'));
  await run('chown', ['postfix', join(folder, 'data')]);
  await mkdir(join(folder, 'queue'));
  await writeFile(join(config, 'main.cf'), mainConfig(folder, ports.sinkPort));
  await writeFile(join(config, 'master.cf'), masterConfig(ports.port));
  await run('postfix', ['-c', config, 'start']);
  await waitFor(() => answers(ports.port), { what: 'Postfix to answer' });
  return Number(await readFile(join(folder, 'queue/pid/master.pid'), 'utf8'));
}

function mainConfig(folder: string, sinkPort: number): string {
  return `compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
myhostname = mail.${SENDER_DOMAIN}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
biff = no
smtpd_relay_restrictions = permit_mynetworks, reject
# Unsigned mail does not leave, as with Letterhaus.
smtpd_milters = unix:${folder}/milter.sock
milter_default_action = tempfail
# No name server is in the way, neither for clients nor for destinations.
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
relayhost = [127.0.0.1]:${sinkPort}
# Full speed to the one destination at once, over connections that are kept.
initial_destination_concurrency = 20
smtp_destination_concurrency_limit = 20
smtp_connection_cache_destinations = [127.0.0.1]:${sinkPort}
# By default a client that sends faster than mail leaves is slowed down.
in_flow_delay = 0s
`;
}

/**
 * Returns Debian's services that the benchmark needs. None runs in a chroot, because the milter's socket is outside.
 */
function masterConfig(port: number): string {
  return `127.0.0.1:${port} inet n - n - - smtpd
cleanup   unix  n       -       n       -       0       cleanup
qmgr      unix  n       -       n       300     1       qmgr
tlsmgr    unix  -       -       n       1000?   1       tlsmgr
rewrite   unix  -       -       n       -       -       trivial-rewrite
bounce    unix  -       -       n       -       0       bounce
defer     unix  -       -       n       -       0       bounce
trace     unix  -       -       n       -       0       bounce
verify    unix  -       -       n       -       1       verify
flush     unix  n       -       n       1000?   0       flush
proxymap  unix  -       -       n       -       -       proxymap
smtp      unix  -       -       n       -       -       smtp
relay     unix  -       -       n       -       -       smtp
showq     unix  n       -       n       -       -       showq
error     unix  -       -       n       -       -       error
retry     unix  -       -       n       -       -       error
discard   unix  -       -       n       -       -       discard
anvil     unix  -       -       n       -       1       anvil
scache    unix  -       -       n       -       1       scache
`;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (isUp: boolean): void => {
      socket.destroy();
      resolve(isUp);
    };
    socket.once('data', () => end(true)).once('error', () => end(false));
  });
}
