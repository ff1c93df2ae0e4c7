/** Checks the optional records of each sending domain: DMARC, MTA-STS, TLS reports, BIMI, its own MX. */
import { examineDmarc } from '../../domains/dmarc/dmarc.ts';
import type { StoredDomain } from '../../domains/domain-store.ts';
import { findDmarcRecords, isDmarc, parseDmarcTags } from '../../domains/dns/dmarc-records.ts';
import { organizationOf } from '../../domains/dns/zone-names.ts';
import { DAY_S } from '../../lib/units.ts';
import { createAddressGuard } from '../../net/ip-addresses.ts';
import { fetchStsPolicy, policyNames, readStsRecord } from '../../net/tls/mta-sts.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { adviceFor, forEachDomain, sentence } from './live-domains.ts';

const REPORT_DOMAINS_MAX = 5;

export const DOMAIN_DMARC: Check = {
  id: 'domain_dmarc',
  title: 'DMARC of each domain',
  run: (context) =>
    forEachDomain(context, async ({ name, stored }) => {
      const record = await findDmarcRecords(name, context.resolver);
      if (record?.kind === 'error') return [noAnswer(name, record.message)];
      const advice = await findAdvice(context, name, 'dmarc');
      const meaning =
        'Large receivers expect a policy, and without one others can forge the domain.';
      const findings = advice.map(({ found, remedy }) =>
        yellow(found, { subject: name, meaning, remedy, command: `dig +short TXT _dmarc.${name}` }),
      );
      const [text = ''] = record?.texts ?? [];
      if (record === null || record.texts.length > 1 || !isDmarc(text)) {
        if (findings.length > 0) return findings;
        return [noAnswer(name, 'a second look-up of the record failed')];
      }
      const reports = await checkReports(context, record.at, text);
      const progress = stored === null ? [] : await checkDmarcProgress(context, stored);
      const all = [...findings, ...reports, ...progress];
      if (all.length > 0) return all;
      return [green(`${name} has a DMARC policy that asks for action and reports.`, name)];
    }),
};

/** Reports that our own mail fails at receivers, or that a stricter policy is safe by their reports. */
async function checkDmarcProgress(
  { database, resolver: lookups, config }: CheckContext,
  stored: StoredDomain,
): Promise<Finding[]> {
  if (database.kind !== 'open' || database.schema !== database.schemaKnown) return [];
  const ownIps = config.sources.map(({ ip }) => ip);
  const { state, message } = await examineDmarc(stored, { db: database.db, lookups, ownIps });
  const subject = stored.name;
  if (state === 'own_mail_fails') {
    const meaning = 'Receivers may treat your mail as forged.';
    const remedy = 'Look at DKIM and SPF of the domain.';
    return [yellow(message, { subject, meaning, remedy, command: `letterhaus doctor ${subject}` })];
  }
  if (state !== 'ready' && state !== 'others_fail') return [];
  const meaning = 'The policy lets more forged mail through than it has to.';
  const remedy = 'Change the record as proposed, when no other service sends for the domain.';
  return [yellow(message, { subject, meaning, remedy })];
}

/** Another organization has to agree to receive reports (RFC 9990 §3), or receivers send none. */
async function checkReports(
  { resolver }: CheckContext,
  at: string,
  text: string,
): Promise<Finding[]> {
  const subject = `_dmarc.${at}`;
  const addresses = (parseDmarcTags(text).get('rua') ?? '').split(',').map((uri) => uri.trim());
  const domains = addresses.flatMap((uri) => /^mailto:[^@]+@([^!]+)/.exec(uri)?.[1] ?? []);
  if (domains.length === 0) {
    return [
      yellow(`The DMARC record at ${subject} asks for no reports.`, {
        subject,
        meaning: 'You do not see whose mail fails, so you cannot make the policy stricter safely.',
        remedy: `Add rua=mailto:dmarc@${at} to the record.`,
      }),
    ];
  }
  const others = [...new Set(domains)].filter(
    (domain) => organizationOf(domain) !== organizationOf(at),
  );
  const findings = others.slice(0, REPORT_DOMAINS_MAX).map(async (domain) => {
    const name = `${at}._report._dmarc.${domain}`;
    const answer = await resolver.txt(name);
    if (answer.kind === 'error') return [noAnswer(name, answer.message)];
    if (answer.kind === 'records' && answer.records.some(isDmarc)) return [];
    return [
      yellow(`Reports about ${at} go to ${domain}, which has not agreed: ${name} is missing.`, {
        subject,
        meaning: 'Receivers send no reports there.',
        remedy: `Have the owner of ${domain} publish the TXT record "v=DMARC1" at ${name}, or name an address in ${at}.`,
      }),
    ];
  });
  return (await Promise.all(findings)).flat();
}

export const DOMAIN_REPLIES: Check = {
  id: 'domain_replies',
  title: 'Replies to each domain',
  run: (context) =>
    forEachDomain(context, async ({ name }) => {
      const advice = await findAdvice(context, name, 'replies');
      const meaning = 'Replies bounce, and some receivers refuse mail from such a domain.';
      if (advice.length === 0) return [green(`${name} has a mail server for replies.`, name)];
      return advice.map(({ found, remedy }) => yellow(found, { subject: name, meaning, remedy }));
    }),
};

export const DOMAIN_MTA_STS: Check = {
  id: 'domain_mta_sts',
  title: 'MTA-STS of each domain',
  run: (context) => forEachDomain(context, ({ name }) => checkMtaSts(context, name)),
};

async function checkMtaSts(context: CheckContext, name: string): Promise<Finding[]> {
  const { resolver, config, world } = context;
  const record = await resolver.txt(`_mta-sts.${name}`);
  if (record.kind === 'error') return [noAnswer(name, record.message)];
  const advice = await findAdvice(context, name, 'mta_sts');
  const meaning = 'Senders do not protect mail to the domain, such as replies, by TLS.';
  if (advice.length > 0) {
    return advice.map(({ found, remedy }) => yellow(found, { subject: name, meaning, remedy }));
  }
  if (record.kind !== 'records' || readStsRecord(record.records).kind === 'none') {
    return [green(`${name} publishes no MTA-STS policy, which is optional.`, name)];
  }
  const guard = createAddressGuard({ allowPrivate: config.allowPrivateNetworks });
  const port = config.mtaStsPort;
  const fetched = await fetchStsPolicy(name, { resolver, guard, world, port });
  const url = `https://mta-sts.${name}/.well-known/mta-sts.txt`;
  const command = `curl -si ${url}`;
  if (fetched.kind === 'failed') {
    return [
      red(`The MTA-STS policy of ${name} cannot be fetched: ${fetched.message}.`, {
        subject: name,
        command,
        meaning: 'Senders that know an earlier policy keep to it, and the others use none.',
        remedy: `Serve the policy at ${url}, or remove the record _mta-sts.${name}.`,
      }),
    ];
  }
  const { policy } = fetched;
  const mx = await resolver.mx(name);
  const hosts = mx.kind === 'records' ? mx.records.map(({ exchange }) => exchange) : [];
  const missing = hosts.filter((host) => policy.mode !== 'none' && !policyNames(policy, host));
  if (missing.length > 0) {
    const report = policy.mode === 'enforce' ? red : yellow;
    return [
      report(`The MTA-STS policy of ${name} does not name its mail server ${missing.join(', ')}.`, {
        subject: name,
        command,
        meaning: 'With the mode enforce, senders do not deliver to that server.',
        remedy: `Add the line "mx: ${missing[0]}" to the policy, and change the id of the record.`,
      }),
    ];
  }
  if (policy.mode !== 'none' && policy.maxAgeS < DAY_S) {
    return [
      yellow(`The MTA-STS policy of ${name} is valid for less than a day.`, {
        subject: name,
        command,
        meaning: 'An attacker needs to block the policy only for that long.',
        remedy: 'Set max_age to weeks, such as 1209600.',
      }),
    ];
  }
  return [green(`${name} has a valid MTA-STS policy (${policy.mode}).`, name)];
}

export const DOMAIN_TLS_REPORTS: Check = {
  id: 'domain_tls_reports',
  title: 'TLS reports of each domain',
  run: (context) =>
    forEachDomain(context, async ({ name }) => {
      const { resolver } = context;
      const [reports, sts] = await Promise.all([
        resolver.txt(`_smtp._tls.${name}`),
        resolver.txt(`_mta-sts.${name}`),
      ]);
      if (reports.kind === 'error') return [noAnswer(name, reports.message)];
      const texts = reports.kind === 'records' ? reports.records : [];
      const records = texts.filter((text) => /^v=TLSRPTv1\s*;/.test(text));
      const subject = `_smtp._tls.${name}`;
      const remedy = `Publish one TXT record at ${subject}: "v=TLSRPTv1; rua=mailto:tls-reports@${name}".`;
      if (records.length === 1 && /;\s*rua=(?:mailto|https):/.test(records[0] ?? '')) {
        return [green(`${name} asks for TLS reports.`, name)];
      }
      if (texts.length > 0) {
        const found = `The record at ${subject} is not valid for TLS reports (RFC 8460).`;
        return [yellow(found, { subject, meaning: 'Senders ignore it.', remedy })];
      }
      const hasSts = sts.kind === 'records' && readStsRecord(sts.records).kind === 'id';
      if (!hasSts) return [green(`${name} asks for no TLS reports, which are optional.`, name)];
      const meaning = 'You get no report when the MTA-STS policy makes senders fail.';
      return [yellow(`${name} has MTA-STS without TLS reports.`, { subject, meaning, remedy })];
    }),
};

export const DOMAIN_BIMI: Check = {
  id: 'domain_bimi',
  title: 'BIMI of each domain',
  run: (context) =>
    forEachDomain(context, async ({ name }) => {
      const { resolver } = context;
      const answer = await resolver.txt(`default._bimi.${name}`);
      if (answer.kind === 'error') return [noAnswer(name, answer.message)];
      const texts = answer.kind === 'records' ? answer.records : [];
      const [text] = texts.filter((one) => /^v=BIMI1\s*;/.test(one));
      if (text === undefined) return [green(`${name} publishes no logo, which is optional.`, name)];
      const subject = `default._bimi.${name}`;
      const meaning = 'Mailboxes do not show the logo.';
      const tags = parseDmarcTags(text);
      if (!/^https:\/\/\S+\.svg$/.test(tags.get('l') ?? '')) {
        const remedy = 'Set l= to the https:// address of an SVG file (SVG Tiny PS).';
        return [
          yellow(`The BIMI record at ${subject} names no logo.`, { subject, meaning, remedy }),
        ];
      }
      const dmarc = await findDmarcRecords(name, resolver);
      if (dmarc?.kind === 'error') return [noAnswer(name, dmarc.message)];
      const policy = parseDmarcTags(dmarc?.texts[0] ?? '').get('p') ?? 'none';
      if (policy === 'none') {
        const remedy = 'Change the DMARC policy to p=quarantine or p=reject.';
        const found = `${name} has a logo, but its DMARC policy asks for no action.`;
        return [yellow(found, { subject, meaning, remedy })];
      }
      if ((tags.get('a') ?? '') === '') {
        const remedy = 'Set a= to the address of a mark certificate (VMC or CMC).';
        const found = `The BIMI record at ${subject} names no certificate.`;
        const onlySome = 'Gmail and Apple do not show the logo. Others may.';
        return [yellow(found, { subject, meaning: onlySome, remedy })];
      }
      return [green(`${name} publishes a logo with a certificate.`, name)];
    }),
};

async function findAdvice(
  context: CheckContext,
  name: string,
  about: 'dmarc' | 'replies' | 'mta_sts',
): Promise<{ found: string; remedy: string }[]> {
  const advice = await adviceFor(context, name);
  return advice
    .filter((one) => one.about === about)
    .map(({ found, remedy }) => ({ found: sentence(found), remedy: sentence(remedy) }));
}

function noAnswer(subject: string, message: string): Finding {
  return unknown(`DNS gave no answer: ${message}.`, { subject });
}
