/** A message that begins with the field of the request and a colon, as programs read it, reads as a sentence. */
const FIELD = /^([\w.[\]-]+): (?=(?:is|are|has|have|must|needs?|cannot|may|takes?|does)\b)/;

/** "to: is required" is "“to” is required". Other messages are sentences already. */
export function refusalInWords(message: string): string {
  return message.replace(FIELD, '“$1” ');
}
