/**
 * Reads an aggregate report about DMARC (RFC 9990): a message with one XML file, compressed by gzip or ZIP or not at
 * all. Says how many messages with the domain in From passed, for each address that sent some.
 *
 * Anybody can write such a message. So everything is bounded: the size before and after decompression, the number of
 * addresses, the counts and the period. Never throws. Loaded only for the first report, because no other mail needs
 * the two libraries.
 */
import { gunzipSync } from 'node:zlib';
import { parseXml, XmlElement } from '@rgrove/parse-xml';
import { unzipSync } from 'fflate';
import { DAY_MS } from '../../lib/units.ts';
import { parseDomain } from '../address.ts';
import { type MimePart, partsWithin, readMessage } from '../mime/reader.ts';

export type DmarcReport = {
  /** The receiver that wrote the report, by its own word. */
  organization: string;
  /** Unique for the organization. */
  reportId: string;
  /** The domain that published the policy, in lower case. */
  domain: string;
  policy: 'none' | 'quarantine' | 'reject';
  beginsAt: Date;
  endsAt: Date;
  /** The addresses with most failed messages first. */
  sources: readonly DmarcSource[];
};

/** Messages from one address: those with an aligned DKIM signature or SPF, and the others. */
export type DmarcSource = { ip: string; passed: number; failed: number };

/** A report of this size has some 4,000 rows. */
const XML_BYTES_MAX = 2 * 1024 * 1024;
const ATTACHMENTS_MAX = 5;
const SOURCES_MAX = 500;
const COUNT_MAX = 1_000_000_000;
const NAME_CHARS_MAX = 255;
const PERIOD_DAYS_MAX = 8;
/** An address of either family is shown and compared, and nothing connects to it. */
const IP = /^(?=.*[.:])[\da-f.:]{3,45}$/i;
const GZIP = Buffer.from([0x1f, 0x8b]);
const ZIP = Buffer.from('PK\u0003\u0004', 'latin1');

/**
 * @param nowMs no report is about the future
 * @returns null for any other message
 */
export function readDmarcReport(message: Buffer, nowMs: number): DmarcReport | null {
  const leaves = [...partsWithin(readMessage(message))].filter(({ parts }) => parts.length === 0);
  for (const leaf of leaves.filter(mayBeReport).slice(0, ATTACHMENTS_MAX)) {
    const report = readXml(decompress(leaf.body), nowMs);
    if (report !== null) return report;
  }
  return null;
}

function mayBeReport({ body }: MimePart): boolean {
  const isCompressed = body.subarray(0, 2).equals(GZIP) || body.subarray(0, 4).equals(ZIP);
  return isCompressed || /^[\s\ufeff]*</.test(body.toString('utf8', 0, 100));
}

/** Returns the XML, or '' when it is damaged or too large. */
function decompress(body: Buffer): string {
  try {
    if (body.subarray(0, 2).equals(GZIP)) {
      return gunzipSync(body, { maxOutputLength: XML_BYTES_MAX }).toString();
    }
    if (!body.subarray(0, 4).equals(ZIP)) {
      return body.length > XML_BYTES_MAX ? '' : body.toString();
    }
    // The library inflates into a buffer of the declared size, and fails where that is a lie.
    let files = 0;
    const filter = ({ originalSize }: { originalSize: number }): boolean =>
      originalSize <= XML_BYTES_MAX && ++files === 1;
    const [xml] = Object.values(unzipSync(body, { filter }));
    return xml === undefined ? '' : Buffer.from(xml).toString();
  } catch {
    return '';
  }
}

function readXml(xml: string, nowMs: number): DmarcReport | null {
  try {
    const { root } = parseXml(xml.trim(), { ignoreUndefinedEntities: true });
    return root?.name === 'feedback' ? reportOf(root, nowMs) : null;
  } catch {
    return null;
  }
}

function reportOf(root: XmlElement, nowMs: number): DmarcReport | null {
  const metadata = child(root, 'report_metadata');
  const published = child(root, 'policy_published');
  const range = child(metadata, 'date_range');
  const domain = parseDomain(text(published, 'domain'));
  const policy = text(published, 'p').toLowerCase();
  const beginsAtMs = count(text(range, 'begin'), Infinity) * 1_000;
  const endsAtMs = count(text(range, 'end'), Infinity) * 1_000;
  const organization = text(metadata, 'org_name').slice(0, NAME_CHARS_MAX);
  const reportId = text(metadata, 'report_id').slice(0, NAME_CHARS_MAX);
  const isPeriod =
    beginsAtMs <= endsAtMs &&
    endsAtMs - beginsAtMs <= PERIOD_DAYS_MAX * DAY_MS &&
    endsAtMs <= nowMs + DAY_MS;
  if (domain === null || !isPolicy(policy) || !isPeriod || organization === '' || reportId === '')
    return null;
  const period = { beginsAt: new Date(beginsAtMs), endsAt: new Date(endsAtMs) };
  return { organization, reportId, domain, policy, ...period, sources: sourcesOf(root) };
}

function isPolicy(word: string): word is DmarcReport['policy'] {
  return word === 'none' || word === 'quarantine' || word === 'reject';
}

function sourcesOf(root: XmlElement): DmarcSource[] {
  const sources = new Map<string, DmarcSource>();
  for (const record of elements(root, 'record')) {
    const row = child(record, 'row');
    const evaluated = child(row, 'policy_evaluated');
    const ip = text(row, 'source_ip');
    const messages = count(text(row, 'count'), COUNT_MAX);
    if (!IP.test(ip) || !(messages > 0)) continue;
    const isPass = ['dkim', 'spf'].some((name) => text(evaluated, name).toLowerCase() === 'pass');
    const { passed, failed } = sources.get(ip) ?? { passed: 0, failed: 0 };
    sources.set(ip, {
      ip,
      passed: passed + (isPass ? messages : 0),
      failed: failed + (isPass ? 0 : messages),
    });
  }
  const sorted = [...sources.values()].toSorted(
    (one, other) => other.failed - one.failed || other.passed - one.passed,
  );
  return sorted.slice(0, SOURCES_MAX);
}

function elements(parent: XmlElement | null, name: string): XmlElement[] {
  const children = parent?.children ?? [];
  return children.filter(
    (one): one is XmlElement => one instanceof XmlElement && one.name === name,
  );
}

function child(parent: XmlElement | null, name: string): XmlElement | null {
  return elements(parent, name)[0] ?? null;
}

/** Without NUL, which the database does not store. */
function text(parent: XmlElement | null, name: string): string {
  return (child(parent, name)?.text ?? '').replaceAll('\0', '').trim();
}

/** Returns NaN for anything but a whole number in this range. */
function count(digits: string, max: number): number {
  return /^\d{1,12}$/.test(digits) ? Math.min(Number(digits), max) : NaN;
}
