/**
 * Prepares the first screen: its file is loaded beside the session, not after it, and the outline
 * of index.html stays until the screen is rendered.
 */
import type { RegisteredRouter } from '@tanstack/react-router';

type Route = { options: { component?: unknown } };
type Preloadable = { preload: () => Promise<unknown> };

export function showFirstScreen(router: RegisteredRouter): void {
  for (const { routeId } of router.matchRoutes(router.latestLocation)) {
    const routes: Record<string, Route> = router.routesById;
    const component = routes[String(routeId)]?.options.component;
    if (isPreloadable(component)) void loadNow(component);
  }
  const end = router.subscribe('onRendered', () => {
    document.getElementById('first-screen')?.remove();
    end();
  });
}

function isPreloadable(component: unknown): component is Preloadable {
  return typeof component === 'function' && 'preload' in component;
}

async function loadNow({ preload }: Preloadable): Promise<void> {
  try {
    await preload();
  } catch {
    // A file that cannot be loaded now is loaded when the screen is shown, with the reason.
  }
}
