/**
 * The label of a provider in metrics: known providers, those in the operator's file, `simulator` and `relay`. All
 * others are `other`, which caps label cardinality: their keys are host names. `letterhaus queue` shows them.
 */
import type { ShapingSettings } from '../../delivery/shaping/settings.ts';
import { SIMULATOR_PROVIDER } from '../../delivery/attempt/simulator.ts';
import { KNOWN_PROVIDERS } from '../../net/providers.ts';

export const OTHER = 'other';
const RELAY = 'relay';

export class ProviderLabels {
  readonly names: readonly string[];
  readonly #names: ReadonlySet<string>;

  constructor({ providers, suffixes }: Pick<ShapingSettings, 'providers' | 'suffixes'>) {
    const own = [...Object.keys(providers), ...suffixes.map(([, key]) => key)];
    this.#names = new Set([...KNOWN_PROVIDERS, ...own, SIMULATOR_PROVIDER, RELAY]);
    this.names = [...this.#names].toSorted();
  }

  of(provider: string): string {
    if (provider.startsWith(`${RELAY} `)) return RELAY;
    return this.#names.has(provider) ? provider : OTHER;
  }
}
