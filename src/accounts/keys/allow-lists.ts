/**
 * The lists of a key as the API shows and takes them: networks of clients, senders and recipients. A list that is null
 * does not limit the key. routes.ts stores what this file has parsed; schemas.ts has the shapes.
 */
import { type FieldProblem, type Refusal, refuseFields } from '../../core/refusals.ts';
import type { AllowLists } from '../../core/scope.ts';
import { domainOfPattern, parseAddressPattern } from '../../mail/address-patterns.ts';
import { parseNetwork } from '../../net/networks.ts';

/** The fields of the lists in requests. null removes a list, and undefined leaves it. */
export type AllowListsInput = {
  [Name in 'allowed_networks' | 'allowed_senders' | 'allowed_recipients']?:
    | readonly string[]
    | null
    | undefined;
};

export function allowListsToWire({
  allowedNetworks,
  allowedSenders,
  allowedRecipients,
}: AllowLists) {
  return {
    allowed_networks: allowedNetworks && [...allowedNetworks],
    allowed_senders: allowedSenders && [...allowedSenders],
    allowed_recipients: allowedRecipients && [...allowedRecipients],
  };
}

const PATTERN_PROBLEM =
  'is not an address, a domain like acme.com or its subdomains like *.acme.com';

/** @param domain the only domain of the key: a sender of another one could never be used */
export function parseAllowLists(
  input: AllowListsInput,
  domain: string | null,
): AllowLists | Refusal {
  const problems: FieldProblem[] = [];
  const parse = (
    field: keyof AllowListsInput,
    parseEntry: (text: string) => string | null,
    problem: string,
  ): readonly string[] | null => {
    const texts = input[field] ?? null;
    if (texts === null) return null;
    const entries = texts.flatMap((text, at) => {
      const entry = parseEntry(text);
      if (entry === null) problems.push({ field: `${field}[${at}]`, message: problem });
      return entry ?? [];
    });
    return [...new Set(entries)];
  };
  const lists: AllowLists = {
    allowedNetworks: parse(
      'allowed_networks',
      parseNetwork,
      'is not an IP address or a network like 203.0.113.0/24',
    ),
    allowedSenders: parse('allowed_senders', parseAddressPattern, PATTERN_PROBLEM),
    allowedRecipients: parse('allowed_recipients', parseAddressPattern, PATTERN_PROBLEM),
  };
  for (const [at, sender] of (lists.allowedSenders ?? []).entries()) {
    if (domain === null || domainOfPattern(sender) === domain) continue;
    const message = `is not of ${domain}, the only domain of this key`;
    problems.push({ field: `allowed_senders[${at}]`, message });
  }
  return problems.length > 0 ? refuseFields(problems) : lists;
}
