/**
 * Chooses the result that decides about the mailed address. A server that expands an alias or forwards a message
 * reports about several addresses, with different results.
 *
 * The first of these decides (RFC 3464 §2.3.1, §2.3.2):
 * 1. the result with our address, or the ORCPT that was sent with it, as Original-Recipient,
 * 2. the result with our address as Final-Recipient,
 * 3. the only result, because the return path belongs to one recipient.
 * With several results and none of our address, none decides. If several name our address, the one with the least
 * effect decides: first a copy that arrived, then one that may still arrive.
 */
import { addressKey, parseAddress } from '../address.ts';
import type { Report, ReportedRecipient, ReportKind } from './read-report.ts';

export type DecidingResult = {
  kind: ReportKind;
  /** Null: the report names no recipient. */
  reported: ReportedRecipient | null;
  /** The result concerns our address itself, not an address that it was forwarded to. */
  isAboutOurs: boolean;
};

const LEAST_FIRST: readonly ReportKind[] = ['delivered', 'other', 'delay', 'bounce'];

/** Returns null when the report does not concern the address. `orcpt` is the sender's ORCPT (RFC 3461). */
export function decidingResult(
  report: Report,
  address: string,
  orcpt: string | null = null,
): DecidingResult | null {
  const { recipients, hasFields, kind } = report;
  if (recipients.length === 0) return { kind, reported: null, isAboutOurs: true };
  const ourKey = keyOf(address);
  const isOurs = (named: string | null) => named !== null && keysOf(named).has(ourKey);
  const sentAs = orcpt === null ? ourKey : keyOf(orcpt);
  const sentToOurs = recipients.filter(
    ({ original }) => isOurs(original) || (original !== null && keysOf(original).has(sentAs)),
  );
  const endedAtOurs = recipients.filter(({ recipient }) => isOurs(recipient));
  const sentAndEndedAtOurs = sentToOurs.filter((result) => endedAtOurs.includes(result));
  const groups: (readonly ReportedRecipient[])[] = [sentAndEndedAtOurs, sentToOurs, endedAtOurs];
  // A text names fewer addresses than fields do, and only failed ones.
  if (!hasFields || isOnlyOne(recipients)) groups.push(recipients);
  const deciding = groups.find(({ length }) => length > 0);
  if (deciding === undefined) return null;
  const reported = leastEffect(deciding);
  const { recipient } = reported;
  return { kind: reported.kind, reported, isAboutOurs: recipient === null || isOurs(recipient) };
}

/** Repeated results about one address count once. */
function isOnlyOne(recipients: readonly ReportedRecipient[]): boolean {
  return new Set(recipients.map(({ recipient }) => recipient && keyOf(recipient))).size === 1;
}

function leastEffect(results: readonly ReportedRecipient[]): ReportedRecipient {
  const effectOf = ({ kind, classification }: ReportedRecipient) =>
    LEAST_FIRST.indexOf(kind) + (classification?.suppress === true ? 1 : 0);
  return results.toSorted((a, b) => effectOf(a) - effectOf(b))[0]!;
}

function keyOf(address: string): string {
  return addressKey(parseAddress(address) ?? address);
}

/** Some servers copy the xtext of ORCPT undecoded (RFC 3461 §4): `jo+2Bnews@acme.test`. */
function keysOf(named: string): ReadonlySet<string> {
  return new Set([keyOf(named), keyOf(fromXtext(named))]);
}

function fromXtext(text: string): string {
  if (!/\+[\dA-F]{2}/.test(text)) return text;
  const octets = Buffer.from(text).toString('latin1');
  const decoded = octets.replace(/\+([\dA-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(decoded, 'latin1').toString();
}
