/** Names of well-known providers. Others, like single hosts, are named as in the queue. */
const NAMES: Readonly<Record<string, string>> = {
  google: 'Google',
  outlook: 'Outlook',
  office365: 'Microsoft 365',
  microsoft: 'Microsoft',
  yahoo: 'Yahoo',
  apple: 'Apple',
  orange: 'Orange',
  comcast: 'Comcast',
  mimecast: 'Mimecast',
  simulator: 'the simulator',
};

/** @param provider its key, as in the queue and on the command line */
export const providerName = (provider: string): string => NAMES[provider] ?? provider;

/** The name of a provider where a line begins with it. */
export function providerTitle(provider: string): string {
  const name = providerName(provider);
  return provider in NAMES ? name.charAt(0).toUpperCase() + name.slice(1) : name;
}

/** A sentence of the service that may begin with the key of the provider. */
export function withProviderName(sentence: string, provider: string): string {
  const isAboutIt = sentence.startsWith(`${provider} `);
  return isAboutIt ? providerName(provider) + sentence.slice(provider.length) : sentence;
}
