/** Who an email is from and for: every address parsed, counted, and checked for reserved domains. */
import { domainOf, explainAddress, type Mailbox, parseMailbox } from '../mail/address.ts';
import { isReservedDomain } from '../mail/domain-name.ts';
import type { Complain, DraftInput, DraftRules, EmailDraft } from './draft.ts';

export const RECIPIENTS_MAX = 50;

type Recipients = Pick<EmailDraft, 'to' | 'cc' | 'bcc' | 'replyTo'>;

export function readMailbox(field: string, text: string, complain: Complain): Mailbox | null {
  const mailbox = parseMailbox(text);
  if (mailbox === null) complain(field, explainAddress(text));
  return mailbox;
}

export function readRecipients(
  input: DraftInput,
  rules: DraftRules,
  complain: Complain,
): Recipients {
  const none: Recipients = { to: [], cc: [], bcc: [], replyTo: [] };
  const count = countOf(input.to) + countOf(input.cc) + countOf(input.bcc);
  if (count > RECIPIENTS_MAX || countOf(input.reply_to) > RECIPIENTS_MAX) {
    const field = count > RECIPIENTS_MAX ? 'to' : 'reply_to';
    complain(field, `there are more than ${RECIPIENTS_MAX} addresses (to, cc and bcc together)`);
    return none;
  }
  if (countOf(input.to) === 0) complain('to', 'needs at least one address');
  const isAllowed = rules.environment === 'test' || rules.allowPrivateNetworks;
  const read = (field: string, value: DraftInput['cc'], mayBeReserved = isAllowed): Mailbox[] =>
    eachOf(field, value).flatMap(([name, text]) => {
      const mailbox = readMailbox(name, text, complain);
      if (mailbox && !mayBeReserved) refuseReserved(name, mailbox, complain);
      return mailbox ?? [];
    });
  return {
    to: read('to', input.to),
    cc: read('cc', input.cc),
    bcc: read('bcc', input.bcc),
    replyTo: read('reply_to', input.reply_to, true),
  };
}

/** Mail for these would only come back: nobody owns them. */
export function refuseReserved(field: string, { address }: Mailbox, complain: Complain): void {
  const domain = domainOf(address);
  if (!isReservedDomain(domain)) return;
  complain(field, `${domain} is a reserved domain that receives no mail; use a test key for it`);
}

function countOf(value: DraftInput['cc']): number {
  return typeof value === 'string' ? 1 : (value?.length ?? 0);
}

/** Each address with the name of its field: `to` when it stands alone, `to[2]` in a list. */
function eachOf(field: string, value: DraftInput['cc']): [string, string][] {
  if (typeof value === 'string') return [[field, value]];
  return (value ?? []).map((text, index) => [`${field}[${index}]`, text]);
}
