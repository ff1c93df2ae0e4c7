/**
 * Parameters of Content-Type and Content-Disposition (RFC 2045 §5.1, RFC 2231), and the media types
 * that clients give for their attachments.
 */

/** A quoted value up to here; longer ones are continued on further lines. */
const QUOTED_MAX = 60;
/** Of percent-encoded text, so that ` filename*0*=utf-8''` and it fit a line. */
const PIECE_MAX = 54;

/**
 * The words of `value; name="text"`, or of `value; name*=utf-8''te%C3%A4t` where the text needs it,
 * in pieces where it is long (header.ts folds between them).
 */
export function withParameter(value: string, name: string, text: string): string[] {
  // Backslashes are left out: readers that do not undo escapes are common.
  if (text.length <= QUOTED_MAX && /^[ !#-[\]-~]*$/.test(text)) {
    return [`${value};`, ` ${name}="${text}"`];
  }
  const pieces = percentEncoded(text);
  if (pieces.length === 1) return [`${value};`, ` ${name}*=utf-8''${pieces[0]}`];
  const words = pieces.map((piece, index) => {
    const charset = index === 0 ? "utf-8''" : '';
    const end = index < pieces.length - 1 ? ';' : '';
    return ` ${name}*${index}*=${charset}${piece}${end}`;
  });
  return [`${value};`, ...words];
}

/** Pieces of at most PIECE_MAX octets, cut between characters. */
function percentEncoded(text: string): string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const character of text) {
    const encoded = /^[A-Za-z0-9._-]$/.test(character) ? character : percents(character);
    if (piece.length + encoded.length > PIECE_MAX) {
      pieces.push(piece);
      piece = '';
    }
    piece += encoded;
  }
  return [...pieces, piece];
}

function percents(character: string): string {
  const octets = Array.from(Buffer.from(character), (octet) => octet.toString(16).toUpperCase());
  return octets.map((octet) => `%${octet.padStart(2, '0')}`).join('');
}

const MEDIA_TYPE_MAX = 200;
/** `type/subtype` and parameters whose values are tokens or quoted without escapes. */
const MEDIA_TYPE =
  /^[\w!#$&^+.-]+\/[\w!#$&^+.-]+(?: ?; ?[\w!#$&^+.*-]+=(?:[\w!#$%&'*+.^`{|}~-]+|"[ !#-[\]-~]*"))*$/;

/** Whether the text can stand in Content-Type: `application/pdf`, `text/plain; charset=utf-8`. */
export function isMediaType(text: string): boolean {
  return text.length <= MEDIA_TYPE_MAX && MEDIA_TYPE.test(text);
}

const CONTENT_ID = /^[^\0-\x20\x7f-\uffff<>()[\]\\",;:]{1,200}$/;

/** Whether the text can stand between the `<` and `>` of Content-ID, for `cid:` links to it. */
export function isContentId(text: string): boolean {
  return CONTENT_ID.test(text);
}
