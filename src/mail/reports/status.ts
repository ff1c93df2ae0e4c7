/**
 * The part for machines of a delivery status notification (RFC 3464, RFC 6533): one claim for each
 * recipient. Lenient: a block begins with its first recipient, also when the empty line in front
 * of it, or behind it, is missing or one too many.
 */
import { addressIn } from './address.ts';
import { type HeaderField, readHeader } from '../mime-reader.ts';

export type StatusClaim = {
  recipient: string | null;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded`; '' when it is not said. */
  action: string;
  /** `5.1.1`, or null. */
  status: string | null;
  /** `smtp`, `x-postfix`, ...; '' when there is no diagnostic. */
  diagnosticType: string;
  diagnostic: string;
};

const BLOCKS_MAX = 500;

export function readStatusClaims(text: string): StatusClaim[] {
  return blocksOf(text)
    .map(claimOf)
    .filter((claim): claim is StatusClaim => claim !== null);
}

type Block = Map<string, string>;

const RECIPIENT_FIELDS = ['final-recipient', 'original-recipient', 'x-actual-recipient'] as const;
/** Those of a block that may stand before its recipient. */
const OF_RECIPIENT: ReadonlySet<string> = new Set([
  ...RECIPIENT_FIELDS,
  'action',
  'status',
  'diagnostic-code',
  'remote-mta',
  'will-retry-until',
  'last-attempt-date',
]);

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let block: Block | null = null;
  for (const group of text.split(/\r?\n[ \t]*\r?\n/, BLOCKS_MAX)) {
    let isNewGroup = true;
    for (const field of fieldsIn(group)) {
      const name = field.name.toLowerCase();
      if (!OF_RECIPIENT.has(name)) continue;
      if (block === null || beginsAnother(block, name, isNewGroup)) {
        block = new Map();
        blocks.push(block);
      }
      isNewGroup = false;
      if (!block.has(name)) block.set(name, field.value);
    }
  }
  return blocks;
}

function fieldsIn(group: string): readonly HeaderField[] {
  return readHeader(Buffer.from(group.replace(/^[\r\n]+/, ''))).fields;
}

/** A second field of one kind, or a recipient after an empty line. */
function beginsAnother(block: Block, name: string, isNewGroup: boolean): boolean {
  if (name === 'final-recipient') return block.has(name);
  return isNewGroup && block.has('final-recipient') && block.has(name);
}

function claimOf(block: Block): StatusClaim | null {
  if (!RECIPIENT_FIELDS.some((name) => block.has(name))) return null;
  const [, diagnosticType = '', diagnostic = ''] =
    /^(?:([\w-]{1,30}) *; *)?([^]*)$/.exec(block.get('diagnostic-code') ?? '') ?? [];
  const recipients = RECIPIENT_FIELDS.map((name) => addressIn(block.get(name) ?? ''));
  return {
    recipient: recipients.find((address) => address !== null) ?? null,
    action: /^[a-z]+/.exec((block.get('action') ?? '').toLowerCase())?.[0] ?? '',
    status: /\b[245]\.\d{1,3}\.\d{1,3}\b/.exec(block.get('status') ?? '')?.[0] ?? null,
    diagnosticType: diagnosticType.toLowerCase(),
    diagnostic: diagnostic.replace(/\s+/g, ' ').trim(),
  };
}
