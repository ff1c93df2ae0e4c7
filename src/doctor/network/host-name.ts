/**
 * Checks the name of this machine in EHLO: complete, in DNS with a public address, and not loopback for programs here.
 */
import { readFile } from 'node:fs/promises';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

export const HOST_NAME: Check = {
  id: 'host_name',
  title: 'Host name in DNS',
  async run(context) {
    const { hostname } = context.config;
    return [hostname.includes('.') ? await checkAddresses(context) : incomplete(context)];
  },
};

function incomplete({ config: { hostname, isHostnameConfigured } }: CheckContext): Finding {
  const name = isHostnameConfigured ? 'LETTERHAUS_HOSTNAME' : 'The name of this machine';
  return red(`${name} is ${hostname}, which is not a full host name.`, {
    subject: hostname,
    meaning: 'Receivers refuse mail from a machine that does not give its full name in EHLO.',
    remedy: 'Set LETTERHAUS_HOSTNAME to the name in the reverse DNS, such as mail.example.com.',
  });
}

async function checkAddresses({ config, resolver }: CheckContext): Promise<Finding> {
  const { hostname: subject, allowPrivateNetworks } = config;
  const answers = await Promise.all([resolver.a(subject), resolver.aaaa(subject)]);
  const failure = answers.find((answer) => answer.kind === 'error');
  const ips = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (ips.length === 0 && failure !== undefined) {
    return unknown(`DNS gave no answer about ${subject}: ${failure.message}.`, { subject });
  }
  if (ips.some((ip) => allowPrivateNetworks || isPublicAddress(ip))) {
    return green(`${subject} has the address ${ips.join(', ')}.`, subject);
  }
  const has =
    ips.length === 0 ? 'has no address in DNS' : `has only private addresses (${ips.join(', ')})`;
  return red(`${subject} ${has}.`, {
    subject,
    meaning: 'Receivers cannot confirm the name in EHLO, and late bounces cannot come back.',
    remedy: `Add an A record (and AAAA, if mail leaves by IPv6) for ${subject} with the public address of this machine.`,
    command: `dig +short ${subject} A ${subject} AAAA`,
  });
}

export const HOSTS_FILE: Check = {
  id: 'hosts_file',
  title: 'Host name in /etc/hosts',
  async run({ config: { hostname }, machine: { hostsFile } }) {
    const text = await readFile(hostsFile, 'utf8').catch(() => null);
    if (text === null) return [unknown(`${hostsFile} cannot be read.`)];
    const ip = loopbackOf(hostname, text);
    if (ip === null) return [green(`${hostsFile} does not make ${hostname} a loopback address.`)];
    return [
      yellow(`${hostsFile} says that ${hostname} is ${ip}.`, {
        subject: hostname,
        meaning:
          'Programs on this machine, such as a monitor, reach loopback when they mean the public name.',
        remedy: `Remove ${hostname} from the line of ${ip}.`,
        command: `grep -n ${hostname} ${hostsFile}`,
      }),
    ];
  },
};

/** Debian's installer adds `127.0.1.1 mail.example.org mail`. */
function loopbackOf(hostname: string, hosts: string): string | null {
  const wanted = hostname.toLowerCase();
  // A name without a dot is local to the machine anyway.
  if (!wanted.includes('.')) return null;
  for (const line of hosts.split('\n')) {
    const [ip = '', ...names] = line.replace(/#.*$/, '').trim().toLowerCase().split(/\s+/);
    if ((ip.startsWith('127.') || ip === '::1') && names.includes(wanted)) return ip;
  }
  return null;
}
