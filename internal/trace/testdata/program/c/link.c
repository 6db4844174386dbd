int nowhere(void);
int main(void) {
    return nowhere();
}
