/** Checks who can read and reach the service: its user, files and listeners, and settings that are for tests only. */
import { stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import { secretKeyFile } from '../../secrets/secret-key-file.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const ACCESS_OF_OTHERS = 0o077;

export const CONFIGURATION: Check = {
  id: 'configuration',
  title: 'Variables',
  run({ configProblems }) {
    if (configProblems.length === 0) return [green('All variables are valid.')];
    return configProblems.map((problem) =>
      red(problem, {
        subject: problem.split(':', 1)[0] ?? null,
        meaning: 'The next start fails. The other checks leave the variable out.',
        remedy: 'Correct it (docs/configuration.md).',
      }),
    );
  },
};

export const DATA_DIRECTORY: Check = {
  id: 'data_directory',
  title: 'Access to the data directory',
  async run({ config: { dataDir } }) {
    const found = await modeOf(dataDir);
    if (typeof found !== 'number') return [found.finding];
    // Root's database runs as another user, which may pass through the folder but not list it.
    if ((found & ACCESS_OF_OTHERS & ~0o011) === 0) {
      return [green(`Only its owner can read ${dataDir}.`, dataDir)];
    }
    return [
      red(`Other users can read ${dataDir} (mode ${octal(found)}).`, {
        subject: dataDir,
        meaning: 'They may read stored mail and the secret key.',
        remedy: 'Take their access away.',
        command: `chmod go-rw ${dataDir}`,
      }),
    ];
  },
};

export const SECRET_KEY: Check = {
  id: 'secret_key',
  title: 'Secret key',
  async run({ config, database }) {
    if (config.secretKey !== null) {
      return [
        green('The secret key is in LETTERHAUS_SECRET_KEY. Keep a copy outside this machine.'),
      ];
    }
    const file = secretKeyFile(config.dataDir);
    const found = await modeOf(file);
    if (typeof found !== 'number') {
      return [found.isMissing && database.kind === 'open' ? missingKey(file) : found.finding];
    }
    if ((found & ACCESS_OF_OTHERS) === 0) return [green(`Only its owner can read ${file}.`, file)];
    return [
      red(`Other users can read ${file} (mode ${octal(found)}).`, {
        subject: file,
        meaning: 'The key decrypts all DKIM keys and webhook secrets.',
        remedy: 'Take their access away. If others have access to this machine, replace the key.',
        command: `chmod 600 ${file}`,
      }),
    ];
  },
};

function missingKey(file: string): Finding {
  return red(`${file} does not exist.`, {
    subject: file,
    meaning:
      'Without the key of the database, no mail can be signed and the service does not start.',
    remedy:
      'Copy the file back from a backup or from another node. If it is lost, docs/backup.md says what remains.',
  });
}

type NoMode = { finding: Finding; isMissing: boolean };

/** Returns the permission bits, or why they are not known. */
async function modeOf(path: string): Promise<number | NoMode> {
  try {
    return (await stat(path)).mode & 0o777;
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const isMissing = code === 'ENOENT';
    const found = isMissing ? `${path} does not exist yet.` : `${path} cannot be read (${code}).`;
    const remedy = isMissing
      ? 'The first start creates it.'
      : 'Run the doctor as the user of the service, or as root.';
    return { finding: unknown(found, { subject: path, remedy }), isMissing };
  }
}

function octal(mode: number): string {
  return mode.toString(8).padStart(3, '0');
}

export const USER: Check = {
  id: 'user',
  title: 'User of the workers',
  run({ machine: { workersStayRoot } }) {
    if (!workersStayRoot) return [green('No worker runs as root.')];
    return [
      yellow('Workers run as root, because they need root to reach the database.', {
        meaning: 'An attacker who exploits a fault in a worker or a library controls the machine.',
        remedy: 'Start the service as an ordinary user (docs/system-user.md).',
      }),
    ];
  },
};

export const LISTENERS: Check = {
  id: 'listeners',
  title: 'Listeners without TLS',
  run(context) {
    const { host, metrics, trustedProxies } = context.config;
    const { hasApiCertificate } = context.machine;
    const findings: Finding[] = [];
    const isBehindProxy = trustedProxies.length > 0;
    if (!isLoopback(host) && !hasApiCertificate && !isBehindProxy) {
      const report = isReachable(host, context) ? red : yellow;
      findings.push(
        report(`The API listens on ${host} without TLS.`, {
          subject: host,
          meaning: 'Others on the way can read API keys and mail.',
          remedy:
            'Set LETTERHAUS_ACME, or LETTERHAUS_API_TLS_CERT and LETTERHAUS_API_TLS_KEY. Or listen on 127.0.0.1 behind a TLS proxy (docs/tls.md).',
        }),
      );
    }
    if (metrics !== null && !isLoopback(metrics.host)) {
      findings.push(
        yellow(`Metrics are served on ${metrics.host} without a token.`, {
          subject: metrics.host,
          meaning: 'Anyone who reaches the port can read them.',
          remedy: 'Permit only your monitoring in the firewall, or use LETTERHAUS_METRICS_TOKEN.',
        }),
      );
    }
    return findings.length > 0
      ? findings
      : [green(`The API listens on ${host}${hasApiCertificate ? ' with TLS' : ''}.`)];
  },
};

/** Returns whether strangers reach a listener, if no firewall stops them. */
function isReachable(host: string, context: CheckContext): boolean {
  const isEveryAddress = host === '0.0.0.0' || host === '::';
  return isEveryAddress ? isPublicMachine(context) : isIP(host) !== 0 && isPublicAddress(host);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

export const TEST_SETTINGS: Check = {
  id: 'test_settings',
  title: 'Settings for tests',
  run(context) {
    const { allowPrivateNetworks, failpoints, acceptDatabaseDurability } = context.config;
    const findings: Finding[] = [];
    if (allowPrivateNetworks && isPublicMachine(context)) {
      findings.push(
        red('LETTERHAUS_ALLOW_PRIVATE_NETWORKS is set on a machine with a public address.', {
          meaning:
            'Senders and recipients can make this machine connect to itself and to its private network.',
          remedy: 'Unset it. It is for tests.',
        }),
      );
    }
    if (failpoints.length > 0) {
      findings.push(
        red('LETTERHAUS_FAILPOINTS is set.', {
          meaning: 'The service stops at the named places on purpose.',
          remedy: 'Unset it. It is for tests of Letterhaus.',
        }),
      );
    }
    if (acceptDatabaseDurability) {
      findings.push(
        yellow('LETTERHAUS_ACCEPT_DATABASE_DURABILITY is set.', {
          meaning: 'The service starts on a database that may lose accepted mail in an outage.',
          remedy: 'Unset it, unless another layer guarantees every commit.',
        }),
      );
    }
    return findings.length > 0 ? findings : [green('No setting for tests is in use.')];
  },
};

function isPublicMachine({ config, machine }: CheckContext): boolean {
  const ips = config.sources.length > 0 ? config.sources.map(({ ip }) => ip) : machine.localIps;
  return ips.some(isPublicAddress);
}
