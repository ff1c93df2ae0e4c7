/** What a provider's state means for the mail that waits for it, in one sentence. */

export const PROVIDER_LIMITS = ['suspension', 'rate', 'connections'] as const;

export type ProviderWait = { limit: (typeof PROVIDER_LIMITS)[number]; message: string };

type State = {
  state: 'open' | 'full' | 'slowed' | 'suspended';
  /** Milliseconds until the suspension or the slowdown ends. */
  forMs: number | null;
  connectionsMax: number;
  connectionsOpen: number;
  /** No mail server anywhere answers this machine. */
  isUplinkDown: boolean;
  /** It refuses all mail from an address of this service; `forMs`: until the next probe. */
  isBlocked: boolean;
};

/** null: the provider holds nothing. */
export function waitForProvider(
  name: string,
  { state, forMs, connectionsMax, connectionsOpen, isUplinkDown, isBlocked }: State,
): ProviderWait | null {
  const forS = forMs === null ? null : Math.max(1, Math.round(forMs / 1000));
  const time = forS === null ? '' : ` for another ${forS} s`;
  switch (state) {
    case 'suspended': {
      if (isBlocked) {
        const message = `${name} refuses all mail from an IP address of this service; one message is tried${forS === null ? ' now and then' : ` in ${forS} s`}.`;
        return { limit: 'suspension', message };
      }
      const why = isUplinkDown
        ? 'no mail server anywhere answers this service: its own network connection is down'
        : 'its servers do not answer';
      const message = `Deliveries to ${name} are suspended${time}, because ${why}.`;
      return { limit: 'suspension', message };
    }
    case 'slowed': {
      const message = `${name} asked for slower sending: at most ${connectionsMax} connections${time}.`;
      return { limit: 'rate', message };
    }
    case 'full': {
      const message = `All ${connectionsOpen} connections to ${name} are in use, of ${connectionsMax} allowed.`;
      return { limit: 'connections', message };
    }
    case 'open':
      return null;
  }
}
