/** A client that sends a test's lines byte for byte and reads every reply. */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { TEST_CA } from './smtp.ts';

const WITHIN_MS = 30_000;

export type DialogueOptions = {
  tls?: boolean;
  host?: string;
  /** The client's own address: any of 127.0.0.0/8. */
  from?: string;
};

export class Dialogue implements AsyncDisposable {
  socket: Socket;
  /** Received text that was not read yet. */
  #text = '';
  #isOver = false;
  #wake: (() => void) | null = null;

  private constructor(socket: Socket) {
    this.socket = socket;
    this.#listen();
  }

  static async open(port: number, options: DialogueOptions = {}) {
    const { tls = false, host = '127.0.0.1', from } = options;
    const where = { host, port, ...(from === undefined ? {} : { localAddress: from }) };
    const socket = tls
      ? connectTls({ ...where, ca: TEST_CA, servername: 'mx.test' })
      : connectTcp(where);
    const dialogue = new Dialogue(socket);
    await new Promise((resolve) => {
      socket.once(tls ? 'secureConnect' : 'connect', resolve).once('error', resolve);
    });
    return dialogue;
  }

  /** Opens a session, receives the greeting and sends EHLO. */
  static async greeted(port: number, options: DialogueOptions = {}) {
    const dialogue = await Dialogue.open(port, options);
    await dialogue.readReply();
    await dialogue.ask('EHLO client.test');
    return dialogue;
  }

  /** Returns the next reply, its lines joined with newlines; null when the server has disconnected. */
  async readReply(): Promise<string | null> {
    for (;;) {
      const match = /^(?:\d{3}-[^\n]*\r\n)*\d{3} [^\n]*\r\n/.exec(this.#text);
      if (match !== null) {
        this.#text = this.#text.slice(match[0].length);
        return match[0].trimEnd().replaceAll('\r\n', '\n');
      }
      if (this.#isOver) return null;
      await this.#more();
    }
  }

  /** Sends a line and reads its reply. */
  ask(line: string): Promise<string | null> {
    this.send(`${line}\r\n`);
    return this.readReply();
  }

  send(bytes: string | Buffer): void {
    if (this.socket.writable) this.socket.write(bytes);
  }

  /** Returns all replies until the server disconnects. */
  async readReplies(): Promise<string[]> {
    const replies: string[] = [];
    for (let reply = await this.readReply(); reply !== null; reply = await this.readReply()) {
      replies.push(reply);
    }
    return replies;
  }

  /** Sends STARTTLS and continues inside TLS. */
  async startTls(): Promise<void> {
    await this.ask('STARTTLS');
    await this.secure();
  }

  async secure(): Promise<void> {
    this.socket.removeAllListeners();
    const secure = connectTls({ socket: this.socket, ca: TEST_CA, servername: 'mx.test' });
    this.socket.on('error', () => {});
    this.socket = secure;
    this.#listen();
    await new Promise((resolve) => secure.once('secureConnect', resolve).once('close', resolve));
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    return Promise.resolve();
  }

  #listen(): void {
    const over = (): void => {
      this.#isOver = true;
      this.#wake?.();
    };
    this.socket.on('data', (bytes: Buffer) => {
      this.#text += bytes.toString('latin1');
      this.#wake?.();
    });
    this.socket.on('end', over).on('close', over).on('error', over);
  }

  #more(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('waited in vain for a reply')), WITHIN_MS);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }
}
