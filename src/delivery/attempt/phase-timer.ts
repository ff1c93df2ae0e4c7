/**
 * Times the phases of one attempt before the dialogue: where an attempt spent its time is the first question about a
 * slow one. A phase that takes place again, at the next server, is added up. The rest of the attempt is the dialogue.
 */
import type { World } from '../../lib/world.ts';
import type { SmtpOpeningStep } from '../../net/smtp/client.ts';

/**
 * `dns`: look-ups of hosts and TLS rules, while the message is signed. `wait`: until a connection was permitted or
 * free. `connect`: TCP. `tls`: handshake. A reused session has neither of the last two.
 */
export type Phase = 'dns' | 'wait' | 'connect' | 'tls';
/** Whole milliseconds; a phase that took less than half of one is left out. */
export type PhaseTimes = Partial<Record<Phase, number>>;

export class PhaseTimer {
  readonly #clock: Pick<World, 'monotonicMs'>;
  readonly #times: Record<Phase, number> = { dns: 0, wait: 0, connect: 0, tls: 0 };
  #begunMs = 0;

  constructor(clock: Pick<World, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Begins a phase. Phases of an attempt follow one another. */
  begin(): void {
    this.#begunMs = this.#clock.monotonicMs();
  }

  /** Ends the phase that has begun, and begins the next one. */
  end(phase: Phase): void {
    const nowMs = this.#clock.monotonicMs();
    this.#times[phase] += nowMs - this.#begunMs;
    this.#begunMs = nowMs;
  }

  /** For the SMTP client, which opens the session. */
  readonly onStep = (step: SmtpOpeningStep): void => {
    if (step === 'connected') this.end('connect');
    else if (step === 'tls_begun') this.begin();
    else this.end('tls');
  };

  get times(): PhaseTimes {
    const times: PhaseTimes = {};
    for (const phase of ['dns', 'wait', 'connect', 'tls'] as const) {
      const ms = Math.round(this.#times[phase]);
      if (ms > 0) times[phase] = ms;
    }
    return times;
  }
}
