/**
 * Finds the addresses that a refused request named, in the outline of its body and in the sentence of its error.
 * Addresses compare by their addressKey, as everywhere.
 */
import { addressKey, parseMailbox } from '../../mail/address.ts';

const FIELDS: ReadonlySet<string> = new Set(['to', 'cc', 'bcc', 'address']);

/** @param outline JSON of requests/body-outline.ts, or null */
export function namesAddress(
  { outline, message }: { outline: string | null; message: string | null },
  key: string,
): boolean {
  const isIt = (text: string): boolean => {
    const mailbox = parseMailbox(text);
    return mailbox !== null && addressKey(mailbox.address) === key;
  };
  const words = (message ?? '').split(/[\s,;:"'()]+/).map((word) => word.replace(/\.$/, ''));
  return words.some(isIt) || textsIn(outline).some(isIt);
}

function textsIn(outline: string | null): string[] {
  const texts: string[] = [];
  const collect = (value: unknown, field: string): void => {
    if (typeof value === 'string' && FIELDS.has(field)) texts.push(value);
    else if (Array.isArray(value)) for (const one of value) collect(one, field);
    else if (typeof value === 'object' && value !== null) {
      for (const [name, one] of Object.entries(value)) collect(one, name);
    }
  };
  collect(outline === null ? null : JSON.parse(outline), '');
  return texts;
}
