/** What a provider's state means for the mail that waits for it, in one sentence. */

export const PROVIDER_LIMITS = ['suspension', 'rate', 'connections'] as const;

export type ProviderWait = { limit: (typeof PROVIDER_LIMITS)[number]; message: string };

type State = {
  state: 'open' | 'full' | 'slowed' | 'suspended';
  /** Milliseconds until the suspension or the slowdown ends. */
  forMs: number | null;
  connectionsMax: number;
  connectionsOpen: number;
};

/** null: the provider holds nothing. */
export function waitForProvider(
  name: string,
  { state, forMs, connectionsMax, connectionsOpen }: State,
): ProviderWait | null {
  const forS = forMs === null ? null : Math.max(1, Math.round(forMs / 1000));
  const time = forS === null ? '' : ` for another ${forS} s`;
  switch (state) {
    case 'suspended': {
      const message = `Deliveries to ${name} are suspended${time}, because its servers do not answer.`;
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
