/**
 * Counts the rows in the binary form of COPY, and adds up one of their columns, without a database. The form: a
 * signature, flags and the length of an extension. Then for each row the number of its fields, and for each field its
 * length (-1: null) and its bytes. A field number of -1 ends the rows.
 */
import { BackupDamaged } from './format.ts';

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
const HEADER_BYTES = SIGNATURE.length + 8;
const END = -1;

export class CopyRowCounter {
  readonly #columns: number;
  readonly #summed: number | null;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #skip = 0;
  #fieldsLeft = 0;
  #isBegun = false;
  #isEnded = false;
  rows = 0;
  sum = 0;

  /** @param options.summed index of a smallint column to add up, or null when there is none */
  constructor({ columns, summed }: { columns: number; summed: number | null }) {
    this.#columns = columns;
    this.#summed = summed;
  }

  push(chunk: Buffer): void {
    const rest = this.#bytes.subarray(this.#at);
    this.#bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    this.#at = 0;
    while (this.#step());
  }

  /** @throws BackupDamaged when the rows have no end */
  finish(): void {
    if (!this.#isEnded || this.#left > 0) throw malformed();
  }

  get #left(): number {
    return this.#bytes.length - this.#at;
  }

  /** @returns false when more bytes are needed */
  #step(): boolean {
    if (this.#left === 0) return false;
    if (this.#isEnded) throw malformed();
    if (!this.#isBegun) return this.#begin();
    if (this.#skip > 0) {
      const passed = Math.min(this.#skip, this.#left);
      this.#skip -= passed;
      this.#at += passed;
      return true;
    }
    return this.#fieldsLeft > 0 ? this.#field() : this.#row();
  }

  #begin(): boolean {
    if (this.#left < HEADER_BYTES) return false;
    const signature = this.#bytes.subarray(this.#at, this.#at + SIGNATURE.length);
    if (!signature.equals(SIGNATURE)) throw malformed();
    this.#isBegun = true;
    this.#skip = this.#bytes.readUInt32BE(this.#at + HEADER_BYTES - 4);
    this.#at += HEADER_BYTES;
    return true;
  }

  #row(): boolean {
    if (this.#left < 2) return false;
    const fields = this.#bytes.readInt16BE(this.#at);
    this.#at += 2;
    if (fields === END) {
      this.#isEnded = true;
      return true;
    }
    if (fields !== this.#columns) throw malformed();
    this.rows += 1;
    this.#fieldsLeft = fields;
    return true;
  }

  #field(): boolean {
    if (this.#left < 4) return false;
    const length = this.#bytes.readInt32BE(this.#at);
    if (length < -1) throw malformed();
    const isSummed = this.#columns - this.#fieldsLeft === this.#summed && length === 2;
    if (isSummed && this.#left < 6) return false;
    if (isSummed) this.sum += this.#bytes.readInt16BE(this.#at + 4);
    this.#at += 4;
    this.#skip = Math.max(0, length);
    this.#fieldsLeft -= 1;
    return true;
  }
}

function malformed(): BackupDamaged {
  return new BackupDamaged('The backup is damaged: the rows of a table are not readable.');
}
