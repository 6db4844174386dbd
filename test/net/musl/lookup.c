// Looks a name up in the ways of getaddrinfo: any family, IPv4, IPv6, each without and with AI_ADDRCONFIG.
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6}, flags[] = {0, AI_ADDRCONFIG};
	for (int n = 1; n < argc; n++)
		for (int f = 0; f < 3; f++)
			for (int g = 0; g < 2; g++) {
				struct addrinfo hints = {.ai_family = families[f], .ai_flags = flags[g], .ai_socktype = SOCK_STREAM}, *list = 0;
				char text[INET6_ADDRSTRLEN] = "IPv6";
				int error = getaddrinfo(argv[n], "80", &hints, &list);
				if (error)
					snprintf(text, sizeof text, "error %d", error);
				else if (list->ai_family == AF_INET)
					inet_ntop(AF_INET, &((struct sockaddr_in *)list->ai_addr)->sin_addr, text, sizeof text);
				printf("%s%s", text, f == 2 && g == 1 ? "\n" : ", ");
			}
}
