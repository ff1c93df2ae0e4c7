/**
 * The conversation of one attempt, for the person who asks "what did their server say?".
 * Bounded, and cheap enough to keep for every message: lines are only collected, never joined.
 */
import type { SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { SmtpTranscript } from './types.ts';

const CHARACTERS_MAX = 8000;

export class Transcript {
  #lines: string[] = [];
  #room = CHARACTERS_MAX;

  client(line: string): void {
    this.#add(`C: ${line}`);
  }

  server(reply: SmtpReply): void {
    const { code, enhancedCode, message } = reply;
    const prefix = enhancedCode === null ? '' : `${enhancedCode} `;
    if (!message.includes('\n')) {
      this.#add(`S: ${code} ${prefix}${message}`);
      return;
    }
    const lines = message.split('\n');
    const last = lines.length - 1;
    lines.forEach((line, i) => this.#add(`S: ${code}${i < last ? '-' : ' '}${prefix}${line}`));
  }

  /** Something that happened to the connection and that neither side said. */
  note(text: string): void {
    this.#add(`(${text})`);
  }

  /** Hands the lines over and begins anew. */
  take(): SmtpTranscript {
    const lines = this.#lines;
    this.#lines = [];
    this.#room = CHARACTERS_MAX;
    return lines;
  }

  #add(line: string): void {
    if (this.#room <= 0) return;
    this.#room -= line.length + 1;
    this.#lines.push(this.#room > 0 ? line : '(the rest is left out)');
  }
}
