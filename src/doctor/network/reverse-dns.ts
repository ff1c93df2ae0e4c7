/**
 * Checks the reverse DNS of the addresses that mail leaves from. Receivers look up the name of the address (PTR), then
 * the address of that name (forward-confirmed), and compare the name with the one in EHLO.
 */
import { isIPv6 } from 'node:net';
import type { DnsResult } from '../../net/dns/resolver.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { findSources, type Source, withoutSources } from './sources.ts';

const SOURCES_MAX = 8;
const NAMES_SHOWN = 3;

export const REVERSE_DNS: Check = {
  id: 'reverse_dns',
  title: 'Reverse DNS of the addresses',
  run: (context) => forEachSource(context, checkReverse),
};

export const HELO_NAME: Check = {
  id: 'helo_name',
  title: 'Name in EHLO',
  run: (context) => forEachSource(context, checkName),
};

async function forEachSource(
  context: CheckContext,
  check: (context: CheckContext, source: Source) => Promise<Finding>,
): Promise<readonly Finding[]> {
  const sources = await findSources(context);
  if (sources.length === 0) return [withoutSources(context)];
  return Promise.all(sources.slice(0, SOURCES_MAX).map((source) => check(context, source)));
}

async function checkReverse(
  { resolver }: CheckContext,
  { ip, heloName }: Source,
): Promise<Finding> {
  const reverse = await resolver.ptr(ip);
  if (reverse.kind === 'error') return noAnswer(ip, reverse);
  const names = reverse.kind === 'records' ? reverse.records.map((name) => name.toLowerCase()) : [];
  const remedy = setPtr(ip, heloName);
  const command = `dig +short -x ${ip}`;
  const [name] = names;
  if (name === undefined) {
    const meaning = 'Large receivers refuse mail from it. Gmail replies 550 5.7.25.';
    return red(`${ip} has no reverse DNS.`, { subject: ip, meaning, remedy, command });
  }
  const forward = await (isIPv6(ip) ? resolver.aaaa(name) : resolver.a(name));
  if (forward.kind === 'error') return noAnswer(ip, forward);
  const addresses = forward.kind === 'records' ? forward.records : [];
  if (!addresses.includes(ip)) {
    const has = addresses.length === 0 ? 'has no address' : `leads to ${addresses.join(', ')}`;
    return red(`The reverse DNS of ${ip} says ${name}, but that name ${has}.`, {
      subject: ip,
      meaning: 'Receivers do not trust such a name, and large ones refuse the mail.',
      remedy: `Add the address ${ip} to ${name}. Or: ${remedy}`,
      command,
    });
  }
  if (names.length > 1) {
    const shown = names.slice(0, NAMES_SHOWN).join(', ');
    return yellow(`${ip} has ${names.length} names in reverse DNS: ${shown}.`, {
      subject: ip,
      meaning: 'Receivers use any one of them, and some refuse mail from such an address.',
      remedy: `Keep only ${heloName}.`,
      command,
    });
  }
  return green(`The reverse DNS of ${ip} says ${name}, and that name leads back to it.`, ip);
}

/** Names that hosting companies give to their addresses: digits of the address, or a word for a range. */
const GENERIC_NAME =
  /(?:\d{1,3}[-.x]){3}\d{1,3}|(?:^|[.-])(?:static|dynamic|dyn|pool|dhcp|dsl|customer|compute|vps)\d*(?=[.-])/;

async function checkName({ resolver }: CheckContext, { ip, heloName }: Source): Promise<Finding> {
  const reverse = await resolver.ptr(ip);
  if (reverse.kind === 'error') return noAnswer(ip, reverse);
  const names = reverse.kind === 'records' ? reverse.records.map((name) => name.toLowerCase()) : [];
  const helo = heloName.toLowerCase();
  if (GENERIC_NAME.test(helo)) {
    return yellow(`${heloName} looks like the default name of a rented machine.`, {
      subject: ip,
      meaning: 'Some receivers refuse or delay mail from such names.',
      remedy: `Choose a name of your own domain, set LETTERHAUS_HOSTNAME to it, and set the reverse DNS of ${ip}.`,
    });
  }
  const [name] = names;
  if (name === undefined) {
    return unknown(`${ip} has no reverse DNS to compare with ${heloName}.`, {
      subject: ip,
      remedy: setPtr(ip, heloName),
    });
  }
  if (names.includes(helo))
    return green(`EHLO gives ${heloName}, as the reverse DNS of ${ip} does.`, ip);
  return yellow(`EHLO gives ${heloName}, but the reverse DNS of ${ip} says ${name}.`, {
    subject: ip,
    meaning: 'Some filters count this against the mail.',
    remedy: `Set LETTERHAUS_HOSTNAME=${name}. Or: ${setPtr(ip, heloName)}`,
  });
}

function setPtr(ip: string, heloName: string): string {
  return `Set the reverse DNS (PTR) of ${ip} to ${heloName} in the panel of your hosting company.`;
}

function noAnswer(ip: string, { message }: Extract<DnsResult<string>, { kind: 'error' }>): Finding {
  return unknown(`DNS gave no answer about the name of ${ip}: ${message}.`, { subject: ip });
}
