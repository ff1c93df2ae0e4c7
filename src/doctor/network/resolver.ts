/**
 * Checks the resolver: whether it answers correctly and quickly, also over TCP, and validates DNSSEC. Routing, the
 * check of domains, DANE and block lists depend on the resolver.
 */
import { parseServer, queryServerOverTcp } from '../../net/dns/dns-query.ts';
import { createResolver } from '../../net/dns/resolver.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** Large receivers, which every resolver can find. */
const NAMES = ['gmail.com', 'outlook.com', 'yahoo.com', 'icloud.com', 'gmx.de'];
const LOOK_UP_WITHIN_MS = 8_000;
const SLOW_MS = 1_000;
const TCP_WITHIN_MS = 5_000;
/** A signed zone, and one whose signatures are wrong on purpose. */
const SIGNED_NAME = 'ietf.org';
const WRONGLY_SIGNED_NAME = 'dnssec-failed.org';
const REMEDY =
  'Run a resolver on this machine, such as unbound, and set LETTERHAUS_DNS_SERVERS=127.0.0.1. Or name other servers.';

export const RESOLVER: Check = {
  id: 'resolver',
  title: 'Resolver answers',
  async run({ resolver, dnsServers, world }) {
    const servers = dnsServers.join(', ');
    const timed = await Promise.all(
      NAMES.map(async (name) => {
        const startedMs = world.monotonicMs();
        const answer = await resolver.mx(name, { fresh: true, budgetMs: LOOK_UP_WITHIN_MS });
        return { answer, ms: world.monotonicMs() - startedMs };
      }),
    );
    const failures = timed.flatMap(({ answer }) => (answer.kind === 'error' ? answer.message : []));
    if (failures.length === timed.length) {
      return [
        red(`No DNS server answers (${servers || 'none is configured'}): ${failures[0]}.`, {
          meaning: 'No mail server can be found, so all mail waits.',
          remedy: REMEDY,
          command: digCommand('MX gmail.com', dnsServers),
        }),
      ];
    }
    if (failures.length > 0) {
      return [
        yellow(`${failures.length} of ${timed.length} look-ups failed: ${failures[0]}.`, {
          meaning: 'Mail to such domains waits until a look-up succeeds.',
          remedy: REMEDY,
        }),
      ];
    }
    const slowestMs = Math.round(Math.max(...timed.map(({ ms }) => ms)));
    if (slowestMs <= SLOW_MS) {
      return [green(`${servers} answered ${timed.length} look-ups within ${slowestMs} ms.`)];
    }
    return [
      yellow(`A look-up took ${slowestMs} ms.`, {
        meaning: 'The first email to each domain waits for several look-ups.',
        remedy: REMEDY,
      }),
    ];
  },
};

/** Some resolvers return the address of a page with advertisements for names that do not exist. */
export const RESOLVER_HONESTY: Check = {
  id: 'resolver_honesty',
  title: 'Resolver invents no answers',
  async run({ resolver, dnsServers, world }) {
    const label = `letterhaus-${Math.floor(world.random() * 1e12).toString(36)}`;
    const name = `${label}.example.com`;
    const answer = await resolver.a(name, { fresh: true, budgetMs: LOOK_UP_WITHIN_MS });
    if (answer.kind === 'error') return [unknown(`DNS gave no answer: ${answer.message}.`)];
    if (answer.kind !== 'records') {
      return [green('The resolver says so when a name does not exist.')];
    }
    const servers = dnsServers.join(', ');
    return [
      red(
        `The resolver ${servers} invents answers for names that do not exist: ${name} is ${answer.records[0]}.`,
        {
          meaning:
            'Mistyped recipient domains look real, so that mail to them waits for days instead of bouncing. Block lists seem to list every address.',
          remedy: REMEDY,
          command: digCommand(name, dnsServers),
        },
      ),
    ];
  },
};

export const DNS_OVER_TCP: Check = {
  id: 'dns_over_tcp',
  title: 'DNS over TCP',
  async run({ dnsServers, world }) {
    const findings = await Promise.all(
      dnsServers.map(async (text): Promise<Finding> => {
        const server = parseServer(text);
        if (server === null) return unknown(`${text} is not the address of a DNS server.`);
        const result = await queryServerOverTcp({
          server,
          question: { name: 'gmail.com', type: 'TXT' },
          deadlineMs: world.monotonicMs() + TCP_WITHIN_MS,
          clock: world,
          signal: new AbortController().signal,
        });
        if (result.kind !== 'silent') return green(`${text} answers over TCP.`, text);
        return red(`${text} does not answer over TCP: ${result.message}.`, {
          subject: text,
          meaning:
            'Answers of more than 1,232 bytes are lost, such as long SPF and DKIM records or many mail servers.',
          remedy: `Permit TCP to port ${server.port} of ${server.ip} in the firewall, or use another resolver.`,
          command: `dig +tcp @${server.ip} -p ${server.port} gmail.com TXT`,
        });
      }),
    );
    return findings.length > 0 ? findings : [unknown('No DNS server is configured.')];
  },
};

export const DNSSEC: Check = {
  id: 'dnssec',
  title: 'Resolver validates DNSSEC',
  async run(context) {
    const { dnsServers, world, config } = context;
    const trusting = createResolver({ servers: dnsServers, world, trustAuthenticatedData: true });
    try {
      const options = { budgetMs: LOOK_UP_WITHIN_MS };
      const [signed, wronglySigned] = await Promise.all([
        trusting.mx(SIGNED_NAME, options),
        trusting.a(WRONGLY_SIGNED_NAME, options),
      ]);
      if (signed.kind === 'error') return [unknown(`DNS gave no answer: ${signed.message}.`)];
      const isMarked = signed.kind === 'records' && signed.authenticated;
      const isValidating = isMarked && wronglySigned.kind !== 'records';
      return [isValidating ? validating(context) : notValidating(config.dnsTrustAd, dnsServers)];
    } finally {
      trusting.close();
    }
  },
};

function notValidating(isTrusted: boolean, servers: readonly string[]): Finding {
  const found = `The resolver ${servers.join(', ')} does not validate DNSSEC.`;
  const command = digCommand(`+dnssec ${SIGNED_NAME}`, servers);
  if (isTrusted) {
    return red(`${found} LETTERHAUS_DNS_TRUST_AD=1 says that it does.`, {
      meaning: 'Forged answers can name other mail servers and certificates, and mail goes there.',
      remedy: `Unset LETTERHAUS_DNS_TRUST_AD. Or: ${REMEDY}`,
      command,
    });
  }
  return yellow(found, {
    meaning: 'DANE stays off: TLS to servers that publish TLSA records is not verified by them.',
    remedy: `${REMEDY} Then set LETTERHAUS_DNS_TRUST_AD=1.`,
    command,
  });
}

function validating({ config, dnsServers }: CheckContext): Finding {
  const remote = dnsServers.filter((server) => !/^(?:127\.|\[?::1\]?)/.test(server));
  const found = `The resolver ${dnsServers.join(', ')} validates DNSSEC.`;
  if (config.dnsTrustAd && remote.length === 0) return green(found);
  if (config.dnsTrustAd) {
    return yellow(`${found} Its answers cross a network.`, {
      meaning: 'Anyone who can change packets on the way can forge answers.',
      remedy: REMEDY,
    });
  }
  return yellow(`${found} LETTERHAUS_DNS_TRUST_AD is not set.`, {
    meaning: 'DANE stays off: TLS to servers that publish TLSA records is not verified by them.',
    remedy:
      remote.length === 0
        ? 'Set LETTERHAUS_DNS_TRUST_AD=1.'
        : `${REMEDY} Then set LETTERHAUS_DNS_TRUST_AD=1.`,
  });
}

function digCommand(question: string, servers: readonly string[]): string {
  const server = parseServer(servers[0] ?? '');
  if (server === null) return `dig ${question}`;
  const port = server.port === 53 ? '' : ` -p ${server.port}`;
  return `dig @${server.ip}${port} ${question}`;
}
