/**
 * Content-Type and its parameters as others write them (RFC 2045 §5.1; RFC 2231: in pieces, or
 * percent-encoded). Linear, bounded, never throws. parameter.ts writes ours.
 */
import { decodeBody, decodeText } from './mime-decode.ts';

const VALUE_CHARS_MAX = 4_096;
const PARAMETERS_MAX = 40;

export type ContentType = {
  /** `text/plain`, in lower case. */
  type: string;
  /** Names in lower case. */
  parameters: ReadonlyMap<string, string>;
};

const TYPE = /^\s*([\w!#$&^.+*-]+)\s*\/\s*([\w!#$&^.+*-]+)/;

/** What makes no sense is text/plain (RFC 2045 §5.2). */
export function readContentType(value: string): ContentType {
  const text = value.slice(0, VALUE_CHARS_MAX);
  const [, type, subtype] = TYPE.exec(text) ?? [];
  if (type === undefined || subtype === undefined) {
    return { type: 'text/plain', parameters: new Map() };
  }
  return { type: `${type}/${subtype}`.toLowerCase(), parameters: readParameters(text) };
}

const PARAMETER = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^\s;]*))/g;

type Pieces = { text: string; isExtended: boolean };

function readParameters(text: string): Map<string, string> {
  const found = new Map<string, Pieces>();
  for (const [, name = '', quoted, token = ''] of text.matchAll(PARAMETER)) {
    if (found.size >= PARAMETERS_MAX) break;
    const value = quoted === undefined ? token : quoted.replace(/\\(.)/g, '$1');
    const [plainName = '', section] = name.toLowerCase().split('*');
    const isExtended = name.endsWith('*');
    // One string for all pieces: what is written plainly must survive the decoding of others.
    const piece = isExtended ? value : value.replaceAll('%', '%25');
    const before = section === undefined ? undefined : found.get(plainName);
    found.set(plainName, {
      text: `${before?.text ?? ''}${piece}`,
      isExtended: isExtended || before?.isExtended === true,
    });
  }
  return new Map(Array.from(found, ([name, pieces]) => [name, decoded(pieces)]));
}

const EXTENDED = /^([\w.:-]{0,40})'[\w-]*'([^]*)$/;

function decoded({ text, isExtended }: Pieces): string {
  const [, charset = '', rest = text] = (isExtended ? EXTENDED.exec(text) : null) ?? [];
  if (!rest.includes('%')) return rest;
  // `%` is to this encoding what `=` is to quoted-printable.
  const marked = rest.replaceAll('=', '%3D').replaceAll('%', '=');
  return decodeText(decodeBody(Buffer.from(marked), 'quoted-printable'), charset);
}
