/**
 * Checks outgoing port 25: whether this machine reaches mail servers from each of its addresses.
 *
 * Many hosting companies filter that port, and then no mail leaves. One run opens at most four connections. Each reads
 * the greeting and quits (net/smtp/greeting.ts), without a recipient. A run within ten minutes of another does not
 * connect again to servers that replied (port-25-memory.ts).
 */
import { isIPv6 } from 'node:net';
import { type Greeting, readGreeting } from '../../net/smtp/greeting.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { MINUTE_MS } from '../../lib/units.ts';
import { isSame, recallTried, type Remembered, rememberTried } from './port-25-memory.ts';

/** Two are tried from each address, because one of them may be down or may refuse this address. */
const RECEIVERS = ['gmail.com', 'yahoo.com', 'outlook.com'];
const CONNECTIONS_MAX = 4;
const RECEIVERS_PER_SOURCE = 2;
const GREETING_WITHIN_MS = 5_000;

export const OUTGOING_PORT_25: Check = {
  id: 'outgoing_port_25',
  title: 'Outgoing port 25',
  async run(context) {
    if (context.config.relay !== null) return [green('Mail leaves through a relay.')];
    const { known, unknown: sources } = splitByMemory(context);
    const tried = sources.slice(0, CONNECTIONS_MAX);
    const perSource = Math.floor(CONNECTIONS_MAX / tried.length);
    const receivers = Math.min(RECEIVERS_PER_SOURCE, perSource);
    const fresh = await Promise.all(tried.map((source) => checkSource(context, source, receivers)));
    remember(context, fresh);
    const findings = [...known, ...fresh.map(({ finding }) => finding)];
    const untried = sources.slice(CONNECTIONS_MAX).map(({ localAddress }) => localAddress);
    if (untried.length === 0) return findings;
    const found = `A run opens ${CONNECTIONS_MAX} connections, so it did not try ${untried.join(', ')}.`;
    return [...findings, unknown(found)];
  },
};

/** `localAddress` is null when the system chooses the address. */
type LocalSource = { localAddress: string | null; isIpv6: boolean };

/** @returns the findings of an earlier run, and the addresses without one */
function splitByMemory(context: CheckContext): { known: Finding[]; unknown: LocalSource[] } {
  const { config, world, isFresh } = context;
  const sources = localSources(context);
  if (isFresh) return { known: [], unknown: sources };
  const { dataDir, mxPort: port } = config;
  const remembered = recallTried({ dataDir, world });
  const memoryOf = ({ localAddress }: LocalSource): Remembered | undefined =>
    remembered.find((one) => isSame(one, { localAddress, port }));
  return {
    known: sources.flatMap((source) => {
      const memory = memoryOf(source);
      return memory === undefined ? [] : [withAge(memory, world.now())];
    }),
    unknown: sources.filter((source) => memoryOf(source) === undefined),
  };
}

function withAge({ finding, atMs }: Remembered, nowMs: number): Finding {
  const minutes = Math.floor((nowMs - atMs) / MINUTE_MS);
  const age =
    minutes === 0 ? 'less than a minute' : minutes === 1 ? 'a minute' : `${minutes} minutes`;
  const note = `A run found this ${age} ago; \`letterhaus doctor --fresh\` tries again.`;
  return { ...finding, found: `${finding.found} ${note}` };
}

function remember(
  { config: { dataDir, mxPort: port }, world }: CheckContext,
  checked: readonly CheckedSource[],
): void {
  const atMs = world.now();
  const replied = checked.filter(({ isReplied }) => isReplied);
  const entries = replied.map(({ localAddress, finding }) => ({
    localAddress,
    port,
    atMs,
    finding,
  }));
  rememberTried(entries, { dataDir, world });
}

function localSources({ config: { sources } }: CheckContext): LocalSource[] {
  if (sources.length === 0) return [{ localAddress: null, isIpv6: false }];
  return sources.map(({ ip }) => ({ localAddress: ip, isIpv6: isIPv6(ip) }));
}

type Probe = { host: string; greeting: Greeting };

/** @property isReplied a server has replied, so the attempt should not be repeated soon */
type CheckedSource = { localAddress: string | null; finding: Finding; isReplied: boolean };

async function checkSource(
  context: CheckContext,
  source: LocalSource,
  receivers: number,
): Promise<CheckedSource> {
  const { localAddress } = source;
  const hosts = await findHosts(context, source.isIpv6, receivers);
  if (hosts.length === 0) {
    const found = `DNS returned no mail server of ${RECEIVERS.join(', ')}, so no connection was tried.`;
    const remedy = 'Correct the resolver first (the check `resolver`).';
    const finding = unknown(found, { remedy, subject: localAddress });
    return { localAddress, finding, isReplied: false };
  }
  const { mxPort: port } = context.config;
  const probes = await Promise.all(
    hosts.map(async ({ name, address }): Promise<Probe> => {
      const timeoutMs = GREETING_WITHIN_MS;
      return {
        host: name,
        greeting: await readGreeting({ address, port, localAddress, timeoutMs }),
      };
    }),
  );
  const isReplied = probes.some(({ greeting }) => greeting.kind === 'replied');
  return { localAddress, finding: judge(probes, source, port), isReplied };
}

type Host = { name: string; address: string };

/** Returns one address of the best mail server of each receiver, of the family of the source. */
async function findHosts(
  { resolver }: CheckContext,
  isIpv6: boolean,
  count: number,
): Promise<Host[]> {
  const found = await Promise.all(
    RECEIVERS.map(async (domain): Promise<Host[]> => {
      const mx = await resolver.mx(domain);
      const name = mx.kind === 'records' ? mx.records[0]?.exchange : undefined;
      if (name === undefined) return [];
      const addresses = await (isIpv6 ? resolver.aaaa(name) : resolver.a(name));
      const address = addresses.kind === 'records' ? addresses.records[0] : undefined;
      return address === undefined ? [] : [{ name, address }];
    }),
  );
  return found.flat().slice(0, count);
}

function judge(probes: readonly Probe[], source: LocalSource, port: number): Finding {
  const subject = source.localAddress;
  const hosts = probes.map(({ host }) => host).join(' and ');
  const welcome = probes.find(
    ({ greeting }) => greeting.kind === 'replied' && greeting.reply.code < 400,
  );
  const refusals = probes.flatMap(refusalOf);
  if (refusals.length > 0) {
    const report = welcome === undefined ? red : yellow;
    return report(`Port ${port} is open, but ${refusals.join(', and ')}.`, {
      subject,
      meaning: 'This receiver refuses the address before it has seen any mail.',
      remedy:
        'Follow the reply, and read the check `block_lists`. Until then send from another address or through a relay.',
    });
  }
  if (welcome !== undefined) return green(`${welcome.host} answers on port ${port}.`, subject);
  const causes = probes.map(({ greeting }) => (greeting.kind === 'failed' ? greeting.cause : null));
  if (causes.includes('no_route')) return withoutRoute(source, hosts);
  const how = causes.includes('timeout')
    ? `leave this machine without an answer (${hosts})`
    : `are refused (${hosts}: ${messageOf(probes)})`;
  return red(`Connections to port ${port} ${how}.`, {
    subject,
    meaning:
      'No mail can be delivered directly. Most likely the hosting company of this machine blocks outgoing mail.',
    remedy:
      'Ask the hosting company to open outgoing port 25, or send through a relay: set LETTERHAUS_RELAY_URL.',
    command: `nc -vz -w 5 ${probes[0]?.host} ${port}`,
  });
}

function withoutRoute({ localAddress, isIpv6 }: LocalSource, hosts: string): Finding {
  return yellow(`${localAddress ?? 'This machine'} has no route to ${hosts}.`, {
    subject: localAddress,
    meaning: 'No mail leaves from this address.',
    remedy: 'Correct the routes of this machine, or remove the address from LETTERHAUS_SOURCE_IPS.',
    command: isIpv6 ? 'ip -6 route' : 'ip route',
  });
}

function refusalOf({ host, greeting }: Probe): string[] {
  if (greeting.kind !== 'replied' || greeting.reply.code < 400) return [];
  const { code, enhancedCode, message } = greeting.reply;
  const [line = ''] = message.split('\n');
  return [
    [host, 'replies', code, enhancedCode ?? '', line].join(' ').replaceAll(/ +/g, ' ').trim(),
  ];
}

function messageOf(probes: readonly Probe[]): string {
  const messages = probes.flatMap(({ greeting }) =>
    greeting.kind === 'failed' ? [greeting.message] : [],
  );
  return [...new Set(messages)].join(', ');
}
